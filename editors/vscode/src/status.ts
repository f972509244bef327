// What the status bar shows of a file: plain values in, plain values out.

/** What the server sends after each check, as `memlint/status`. */
export interface FileStatus {
  uri: string;
  runs: { text: string; verdict: string }[];
  findings: number;
}

export interface StatusText {
  text: string;
  tooltip: string;
  /** How loud it is: a theme colour of the status bar, or none. */
  colour: "" | "statusBarItem.errorBackground" | "statusBarItem.warningBackground";
}

const WORST = ["out_of_memory", "tight", "unknown", "fits"];
const ICONS: Record<string, string> = { out_of_memory: "error", tight: "warning", unknown: "question", fits: "check" };

/** The status bar for a file, undefined for one without a run. With several runs it shows the one that fits least. */
export function statusText(status: FileStatus | undefined): StatusText | undefined {
  if (!status || status.runs.length === 0) {
    return undefined;
  }
  const [worst] = [...status.runs].sort((one, other) => WORST.indexOf(one.verdict) - WORST.indexOf(other.verdict));
  const more = status.runs.length > 1 ? ` (1 of ${status.runs.length} runs)` : "";
  const stops = worst.text.includes("will not start");
  const icon = stops ? "error" : (ICONS[worst.verdict] ?? "question");
  const findings = `${status.findings} finding${status.findings === 1 ? "" : "s"}`;
  return {
    text: `$(${icon}) ${worst.text}${more}`,
    tooltip: `memlint: ${status.runs.map((run) => run.text).join("\n")}\n${findings}. Click to select another card.`,
    colour:
      stops || worst.verdict === "out_of_memory"
        ? "statusBarItem.errorBackground"
        : worst.verdict === "tight"
          ? "statusBarItem.warningBackground"
          : "",
  };
}

/** The settings that the server takes, without those that only the extension reads and those that say nothing. */
export function serverSettings(settings: Record<string, unknown>): Record<string, unknown> {
  const says = (value: unknown) =>
    typeof value !== "function" &&
    value !== null &&
    value !== undefined &&
    value !== "" &&
    !(Array.isArray(value) && value.length === 0) &&
    !(typeof value === "object" && !Array.isArray(value) && Object.keys(value as object).length === 0);
  return Object.fromEntries(Object.entries(settings).filter(([name, value]) => name !== "command" && says(value)));
}
