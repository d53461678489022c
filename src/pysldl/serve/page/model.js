// Model: what it was trained on, how it is set, and how far its numbers can be believed.

import { $, count, el } from "/page/dom.js";
import { lineChart } from "/page/chart.js";

export function showModel(facts) {
  if ($("model-body").childElementCount) return;
  const about = facts.fitted_on;
  const parts = [
    sheet("Data", [
      facts_list({
        "trained on": about.data ?? "not noted",
        split: about.split,
        features: about.features,
        "training rows": count(facts.n_samples),
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
    calibrationPlot(facts.calibration),
    frequencyPlot(facts),
    sheet("Parameters", [facts_list(flat(facts.parameters))]),
  ];
  $("model-body").replaceChildren(...parts.filter((part) => part !== null));
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

function quality(facts) {
  const measured = facts.fitted_on.held_out ?? facts.fitted_on.metrics;
  const numbers = Object.entries(measured ?? {}).filter(([, value]) => typeof value === "number");
  const found = Object.fromEntries(numbers.map(([name, value]) => [name, `${(100 * value).toFixed(1)} %`]));
  if (facts.calibration) {
    found["micro-F1, training rows left out in turn"] = `${(100 * facts.calibration.left_out_f1).toFixed(1)} %`;
    found["threshold on the score"] = facts.calibration.threshold.toPrecision(3);
  }
  const inside = Object.keys(found).length
    ? [facts_list(found)]
    : [el("p", { class: "quiet" }, "No measurement is kept with this model.")];
  if (!numbers.length)
    inside.push(el("p", { class: "quiet" }, "sldl evaluate measures it on rows that it has not seen."));
  return sheet("Held-out rows", inside);
}

function calibrationPlot(calibration) {
  if (!calibration) return null;
  const { scores, probabilities, threshold } = calibration;
  const chart = lineChart({
    title: "Calibration: the share of labels with a score that applied",
    x: scores,
    y: probabilities,
    xName: "score",
    yName: "share that applied",
    yRange: [0, 1],
    yFormat: (value) => `${Math.round(100 * value)} %`,
    note: { x: threshold, text: "assigned from here" },
  });
  const words =
    "The confidence of a label is the share of labels with its score that applied, on training rows left out in turn.";
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
