import * as vscode from "vscode";
import { LanguageClient, ServerOptions } from "vscode-languageclient/node";
import { FileStatus, serverSettings, statusText } from "./status";

const LANGUAGES = ["yaml", "json", "jsonc", "shellscript", "python", "makefile"];
const AUTOMATIC = "What the files say";

let client: LanguageClient | undefined;
const statuses = new Map<string, FileStatus>();

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const bar = vscode.window.createStatusBarItem("memlint", vscode.StatusBarAlignment.Right, 100);
  bar.name = "memlint";
  bar.command = "memlint.chooseCard";
  const show = () => {
    const uri = vscode.window.activeTextEditor?.document.uri.toString();
    const found = statusText(uri === undefined ? undefined : statuses.get(uri));
    if (!found) {
      bar.hide();
      return;
    }
    bar.text = found.text;
    bar.tooltip = found.tooltip;
    bar.backgroundColor = found.colour ? new vscode.ThemeColor(found.colour) : undefined;
    bar.show();
  };
  context.subscriptions.push(
    bar,
    vscode.window.onDidChangeActiveTextEditor(show),
    vscode.workspace.onDidCloseTextDocument((document) => statuses.delete(document.uri.toString())),
    vscode.commands.registerCommand("memlint.chooseCard", chooseCard),
    vscode.commands.registerCommand("memlint.restart", async () => {
      await client?.stop();
      await start(show);
    }),
  );
  await start(show);
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}

async function start(show: () => void): Promise<void> {
  const settings = vscode.workspace.getConfiguration("memlint");
  const [command, ...args] = settings.get<string[]>("command", ["memlint", "lsp"]);
  const server: ServerOptions = { command, args };
  client = new LanguageClient("memlint", "memlint", server, {
    documentSelector: LANGUAGES.map((language) => ({ scheme: "file", language })),
    initializationOptions: { ...serverSettings({ ...settings }), status: true },
    synchronize: { configurationSection: undefined },
    middleware: {
      workspace: {
        // The server asks for its settings: those that say something.
        configuration: async (parameters, token, next) => {
          const answers = await next(parameters, token);
          return Array.isArray(answers) ? answers.map((one) => (one ? serverSettings(one) : one)) : answers;
        },
      },
    },
  });
  client.onNotification("memlint/status", (status: FileStatus) => {
    statuses.set(vscode.Uri.parse(status.uri).toString(), status);
    show();
  });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const message = `memlint: ${command} did not start (${error}). Install memlint with its extra lsp, or set memlint.command.`;
    void vscode.window.showErrorMessage(message);
  }
}

async function chooseCard(): Promise<void> {
  const names = await client?.sendRequest<string[]>("workspace/executeCommand", { command: "memlint.cards", arguments: [] });
  if (!names) {
    return;
  }
  const chosen = await vscode.window.showQuickPick([AUTOMATIC, ...names], { placeHolder: "The card that runs are held against" });
  if (chosen !== undefined) {
    const name = chosen === AUTOMATIC ? "" : chosen;
    await client?.sendRequest("workspace/executeCommand", { command: "memlint.selectCard", arguments: [name] });
  }
}
