// The extension in Node, with stand-ins for the editor's module and for the client. No display.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { test } = require("node:test");

const root = path.join(__dirname, "..");
const manifest = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"));
const { load, editor } = require("./support/load.js");
const { statusText, serverSettings } = load("src/status.ts");

const run = (text, verdict) => ({ text, verdict });

test("the status bar shows the run that fits least", () => {
  const found = statusText({ uri: "", findings: 2, runs: [run("a: fits", "fits"), run("b: out of memory", "out_of_memory")] });
  assert.equal(found.text, "$(error) b: out of memory (1 of 2 runs)");
  assert.equal(found.colour, "statusBarItem.errorBackground");
  assert.match(found.tooltip, /a: fits\nb: out of memory\n2 findings\./);
});

test("a run that fits is quiet, a tight one is not", () => {
  assert.equal(statusText({ uri: "", findings: 0, runs: [run("fits", "fits")] }).colour, "");
  assert.equal(statusText({ uri: "", findings: 1, runs: [run("tight", "tight")] }).colour, "statusBarItem.warningBackground");
});

test("a run that will not start is an error whatever it takes", () => {
  const found = statusText({ uri: "", findings: 1, runs: [run("1 GiB: will not start (CFG001)", "fits")] });
  assert.match(found.text, /^\$\(error\)/);
  assert.equal(found.colour, "statusBarItem.errorBackground");
});

test("a file without a run shows nothing", () => {
  assert.equal(statusText(undefined), undefined);
  assert.equal(statusText({ uri: "", findings: 0, runs: [] }), undefined);
});

test("settings that say nothing are not sent", () => {
  const given = { command: ["memlint"], gpu: "H100", gpus: null, model: "", with: [], versions: {}, preview: false, images: 0 };
  assert.deepEqual(serverSettings(given), { gpu: "H100", preview: false, images: 0 });
});

test("every setting of the extension is one of the server's", () => {
  const python = fs.readFileSync(path.join(root, "..", "..", "memlint", "lsp", "configuration.py"), "utf8");
  const known = new Set([...python.matchAll(/^ {4}"(\w+)": /gm)].map((one) => one[1]));
  for (const name of Object.keys(manifest.contributes.configuration.properties)) {
    const setting = name.replace("memlint.", "");
    assert.ok(setting === "command" || known.has(setting), name);
  }
});

test("the commands of the manifest are there, and the server is started as the settings say", async () => {
  const seen = editor({ command: ["/opt/memlint", "lsp"], gpu: "H100", model: "" }, {});
  await seen.extension.activate({ subscriptions: [] });
  assert.deepEqual([...seen.commands.keys()].sort(), manifest.contributes.commands.map((one) => one.command).sort());
  assert.deepEqual(seen.client.server, { command: "/opt/memlint", args: ["lsp"] });
  assert.deepEqual(seen.client.options.initializationOptions, { gpu: "H100", status: true });
  assert.equal(seen.client.notification, "memlint/status");
  await seen.extension.deactivate();
  assert.equal(seen.client.isRunning, false);
});

test("the status bar follows the open file", async () => {
  const seen = editor({}, {});
  await seen.extension.activate({ subscriptions: [] });
  assert.equal(seen.bar.isShown, false);
  seen.client.notify({ uri: "file:///other.yaml", findings: 0, runs: [run("other", "fits")] });
  assert.equal(seen.bar.isShown, false);
  seen.client.notify({ uri: "file:///train.yaml", findings: 1, runs: [run("90 GiB: out of memory", "out_of_memory")] });
  assert.deepEqual([seen.bar.isShown, seen.bar.text], [true, "$(error) 90 GiB: out of memory"]);
  assert.equal(seen.bar.backgroundColor.id, "statusBarItem.errorBackground");
  seen.vscode.window.activeTextEditor = undefined;
  seen.listeners.forEach((call) => call());
  assert.equal(seen.bar.isShown, false);
});

test("a card is chosen from the server's list", async () => {
  const seen = editor({}, { "memlint.cards": ["A100-80GB", "H100-80GB"] });
  await seen.extension.activate({ subscriptions: [] });
  seen.pick = (items) => (assert.deepEqual(items, ["What the files say", "A100-80GB", "H100-80GB"]), items[2]);
  await seen.commands.get("memlint.chooseCard")();
  assert.deepEqual(seen.requests.at(-1), { command: "memlint.selectCard", arguments: ["H100-80GB"] });
  seen.pick = (items) => items[0];
  await seen.commands.get("memlint.chooseCard")();
  assert.deepEqual(seen.requests.at(-1), { command: "memlint.selectCard", arguments: [""] });
});

test("a server that is not installed is named with what to do", async () => {
  const seen = editor({}, {}, true);
  await seen.extension.activate({ subscriptions: [] });
  assert.match(seen.errors.join(), /memlint did not start .*ENOENT.*Install memlint with its extra lsp/);
  await seen.commands.get("memlint.chooseCard")();
  await seen.extension.deactivate();
});

test("settings that the server asks for are those that say something", async () => {
  const seen = editor({}, {});
  await seen.extension.activate({ subscriptions: [] });
  const { configuration } = seen.client.options.middleware.workspace;
  const answers = await configuration({}, {}, async () => [{ gpu: "H100", model: "", command: ["x"] }]);
  assert.deepEqual(answers, [{ gpu: "H100" }]);
});

test("the bundle that is packaged has an activate", () => {
  const text = fs.readFileSync(path.join(root, "out", "extension.js"), "utf8");
  assert.match(text, /activate:/);
  assert.ok(text.length > 100_000); // the client of the protocol is in it
});
