// Bundles TypeScript in memory and runs it, with stand-ins for the editor's module and for the client of the protocol.
"use strict";

const Module = require("node:module");
const path = require("node:path");
const esbuild = require("esbuild");

function load(file, modules = {}) {
  const source = path.join(__dirname, "..", "..", file);
  const { outputFiles } = esbuild.buildSync({
    entryPoints: [source],
    bundle: true,
    platform: "node",
    format: "cjs",
    external: Object.keys(modules),
    write: false,
  });
  const made = { exports: {} };
  const inner = (name) => modules[name] ?? require(name);
  const wrapped = Module.wrap(outputFiles[0].text);
  require("node:vm").runInThisContext(wrapped)(made.exports, inner, made, source, path.dirname(source));
  return made.exports;
}

// An editor with one open file, and a server that is asked for what `answers` holds.
function editor(settings, answers, fails = false) {
  const seen = { commands: new Map(), errors: [], requests: [], bar: { isShown: false }, client: undefined, listeners: [] };
  const disposable = { dispose: () => undefined };
  Object.assign(seen.bar, {
    show: () => (seen.bar.isShown = true),
    hide: () => (seen.bar.isShown = false),
    dispose: () => undefined,
  });
  const vscode = {
    StatusBarAlignment: { Right: 2 },
    ThemeColor: class {
      constructor(id) {
        this.id = id;
      }
    },
    Uri: { parse: (text) => ({ toString: () => text }) },
    commands: { registerCommand: (name, call) => (seen.commands.set(name, call), disposable) },
    window: {
      activeTextEditor: { document: { uri: { toString: () => "file:///train.yaml" } } },
      createStatusBarItem: () => seen.bar,
      onDidChangeActiveTextEditor: (call) => (seen.listeners.push(call), disposable),
      showErrorMessage: (text) => seen.errors.push(text),
      showQuickPick: async (items) => seen.pick(items),
    },
    workspace: {
      getConfiguration: () => ({ ...settings, get: (name, other) => settings[name] ?? other }),
      onDidCloseTextDocument: () => disposable,
    },
  };
  class LanguageClient {
    constructor(id, name, server, options) {
      Object.assign(this, { server, options, isRunning: false });
      seen.client = this;
    }
    onNotification(name, call) {
      this.notify = (status) => call(status);
      this.notification = name;
    }
    async start() {
      if (fails) {
        throw new Error("spawn ENOENT");
      }
      this.isRunning = true;
    }
    async stop() {
      this.isRunning = false;
    }
    async sendRequest(method, params) {
      seen.requests.push(params);
      return answers[params.command];
    }
  }
  seen.vscode = vscode;
  seen.extension = load("src/extension.ts", { vscode, "vscode-languageclient/node": { LanguageClient } });
  return seen;
}

module.exports = { load, editor };
