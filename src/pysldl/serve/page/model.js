// Model: what it was trained on, how it is set, and how far its numbers can be believed.

import { $, count, el } from "/page/dom.js";
import { lineChart } from "/page/chart.js";

export function showModel(facts) {
  if ($("model-body").dataset.version === facts.version) return;
  $("model-body").dataset.version = facts.version;
  const about = facts.fitted_on;
  const parts = [
    sheet("Data", [
      facts_list({
        "trained on": about.data ?? "not noted",
        split: about.split,
        features: about.features,
        "training rows": count(facts.n_samples),
        updates: updates(about.updates ?? []),
        "feature columns": count(facts.n_features),
        labels: count(facts.n_labels),
        "labels never seen in training": facts.n_labels - facts.n_labels_seen || null,
        takes: facts.takes.join(" and "),
        written: new Date(facts.created).toLocaleString("en-GB", { timeZone: "UTC" }) + " UTC",
        version: facts.version,
        "written by": `pysldl ${facts.library_version}`,
        size: `${(facts.n_bytes / 1e6).toFixed(1)} MB`,
      }),
    ]),
    quality(facts),
    calibrationPlot(facts),
    frequencyPlot(facts),
    sheet("Parameters", [folded(flat(facts.parameters))]),
  ];
  $("model-body").replaceChildren(...parts.filter((part) => part !== null));
}

const SHORT = 12;
const FAMILIES = { P: "precision (P)", R: "recall (R)" };

const share = (value) => `${(100 * value).toFixed(1)} %`;

// What `sldl update` has done to the model since it was fitted.
function updates(all) {
  if (!all.length) return null;
  const sum = (name) => all.reduce((total, update) => total + (update[name] ?? 0), 0);
  const parts = [
    [sum("n_added"), "rows added"],
    [sum("n_removed"), "rows taken out"],
    [sum("n_new_labels"), "new labels"],
  ];
  const said = parts.filter(([n]) => n).map(([n, what]) => `${count(n)} ${what}`);
  return `${all.length}: ${said.join(", ")}`;
}

function sheet(title, inside) {
  return el("section", { class: "sheet" }, el("h2", {}, title), ...inside);
}

function facts_list(entries) {
  const known = Object.entries(entries).filter(([, value]) => value !== null && value !== undefined);
  return el(
    "dl",
    { class: "facts" },
    known.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]),
  );
}

// A list that is long is opened by whoever wants to read it.
function folded(entries) {
  const n = Object.keys(entries).length;
  if (n <= SHORT) return facts_list(entries);
  return el("details", {}, el("summary", {}, `All ${n} of them`), facts_list(entries));
}

function quality({ calibration, held_out: held }) {
  if (!calibration) return sheet("Held-out examples", [el("p", { class: "quiet" }, "This model was not calibrated.")]);
  const found = Object.fromEntries(Object.entries(held?.metrics ?? {}).map(([name, value]) => [name, share(value)]));
  found["micro-F1 at the threshold"] = share(calibration.held_out_f1);
  found["threshold on the score"] = calibration.threshold.toPrecision(3);
  const inside = [metricsTable(found)];
  if (held) {
    const words = `Measured on ${count(held.n_rows)} held-out examples.`;
    inside.unshift(el("p", { class: "quiet" }, words));
    inside.push(el("h3", {}, "True labels found among the five best"), recallTable(held.by_frequency));
  }
  return sheet("Held-out examples", inside);
}

// Metrics at 1, 3 and 5 side by side; whatever has no cut-off below.
function metricsTable(found) {
  const cutoffs = [...new Set(Object.keys(found).map((name) => name.split("@")[1]))].filter(Boolean);
  const families = [...new Set(Object.keys(found).map((name) => name.split("@")[0]))];
  const single = Object.fromEntries(Object.entries(found).filter(([name]) => !name.includes("@")));
  const table = cutoffs.length
    ? el(
        "table",
        {},
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "among the best"), ...cutoffs.map((k) => el("th", { scope: "col" }, k)))),
        el(
          "tbody",
          {},
          families
            .filter((name) => !(name in single))
            .map((name) =>
              el(
                "tr",
                {},
                el("th", { scope: "row" }, FAMILIES[name] ?? name),
                ...cutoffs.map((k) => el("td", {}, found[`${name}@${k}`] ?? "–")),
              ),
            ),
        ),
      )
    : null;
  return el("div", {}, table, facts_list(single));
}

function recallTable(groups) {
  return el(
    "table",
    {},
    el(
      "thead",
      {},
      el("tr", {}, ...["training examples", "labels", "in held-out examples", "found", "share"].map((name) => el("th", { scope: "col" }, name))),
    ),
    el(
      "tbody",
      {},
      groups.map((group) => {
        const range = group.to === null ? `${group.from} and more` : group.from === group.to ? group.from : `${group.from} to ${group.to}`;
        const found = group.recall === null ? "–" : share(group.recall);
        const n = group.recall === null ? 0 : Math.round(group.recall * group.n_true);
        return el(
          "tr",
          {},
          el("th", { scope: "row" }, String(range)),
          el("td", {}, count(group.n_labels)),
          el("td", {}, count(group.n_true)),
          el("td", {}, count(n)),
          el("td", {}, found),
        );
      }),
    ),
  );
}

// Where the model keeps it: confidence against truth. Else the curve from score to confidence.
function calibrationPlot({ calibration, held_out: held }) {
  if (!calibration) return null;
  const percentage = (value) => `${Math.round(100 * value)} %`;
  if (held?.reliability.length > 1) {
    const chart = lineChart({
      title: "Calibration: confidence against the share of labels that applied",
      x: held.reliability.map((bin) => bin.predicted),
      y: held.reliability.map((bin) => bin.observed),
      xName: "confidence",
      yName: "share that applied",
      xRange: [0, 1],
      yRange: [0, 1],
      xFormat: percentage,
      yFormat: percentage,
      diagonal: true,
      dots: true,
    });
    const words = "On the dashed line, labels given with 70 % confidence apply 70 times in 100. Judged on held-out examples.";
    return sheet("Calibration", [chart, el("p", { class: "quiet" }, words)]);
  }
  const chart = lineChart({
    title: "Calibration: the share of labels with a score that applied",
    x: calibration.scores,
    y: calibration.probabilities,
    xName: "score",
    yName: "confidence",
    yRange: [0, 1],
    yFormat: percentage,
    note: { x: calibration.threshold, text: "threshold" },
  });
  const words = "The confidence of a label is the share of labels with its score that applied, on held-out examples.";
  return sheet("Calibration", [chart, el("p", { class: "quiet" }, words)]);
}

function frequencyPlot(facts) {
  const seen = facts.frequencies.filter((n) => n > 0);
  if (seen.length < 2) return null;
  const step = (facts.n_labels - 1) / Math.max(1, facts.frequencies.length - 1);
  const chart = lineChart({
    title: "Training rows of every label, the most frequent first",
    x: seen.map((_, i) => 1 + i * step),
    y: seen,
    xName: "label, by frequency",
    yName: "training rows",
    log: true,
  });
  const rare = facts.frequencies.filter((n) => n <= 10).length / facts.frequencies.length;
  const words = `${Math.round(100 * rare)} % of the labels have ten training rows or fewer; trust those less.`;
  return sheet("Label frequency", [chart, el("p", { class: "quiet" }, words)]);
}

function flat(tree, prefix = "") {
  const found = {};
  for (const [name, value] of Object.entries(tree)) {
    if (value !== null && typeof value === "object" && "class" in value) {
      const { class: kind, ...rest } = value;
      found[prefix + name] = kind;
      Object.assign(found, flat(rest, `${prefix}${name}.`));
    } else if (value !== null) found[prefix + name] = typeof value === "object" ? JSON.stringify(value) : value;
  }
  return found;
}
