// A curve with two axes, drawn as SVG.

import { el } from "/page/dom.js";

const [WIDE, NARROW, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [520, 350, 300, 54, 44, 14, 24];

export function lineChart({
  title,
  x,
  y,
  xName,
  yName,
  xRange = [Math.min(...x), Math.max(...x)],
  yRange = [Math.min(...y), Math.max(...y)],
  xFormat = short,
  yFormat = short,
  log = false,
  diagonal = false,
  dots = false,
  note = null,
}) {
  // A drawing is scaled to its sheet: on a small screen it is made narrower, so that its letters stay as large.
  const width = matchMedia("(max-width: 52rem)").matches ? NARROW : WIDE;
  const bend = log ? Math.log10 : (value) => value;
  const xs = scale(...xRange.map(bend), LEFT, width - RIGHT);
  const ys = scale(...yRange.map(bend), HEIGHT - BOTTOM, TOP);
  const points = x.map((value, i) => `${xs(bend(value)).toFixed(1)},${ys(bend(y[i])).toFixed(1)}`);
  const marks = [];
  for (const value of ticks(...xRange, log)) {
    const at = xs(bend(value));
    marks.push(el("line", { class: "axis", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM }));
    marks.push(el("text", { x: at, y: HEIGHT - BOTTOM + 17, "text-anchor": "middle" }, xFormat(value)));
  }
  for (const value of ticks(...yRange, log)) {
    const at = ys(bend(value));
    marks.push(el("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: at, y2: at }));
    marks.push(el("text", { x: LEFT - 7, y: at + 4, "text-anchor": "end" }, yFormat(value)));
  }
  if (diagonal)
    marks.push(el("line", { class: "note", x1: xs(0), y1: ys(0), x2: xs(1), y2: ys(1) }));
  if (dots)
    points.forEach((point) => {
      const [cx, cy] = point.split(",");
      marks.push(el("circle", { class: "dot", cx, cy, r: 3.5 }));
    });
  if (note) {
    const at = xs(bend(note.x));
    const right = at < width * 0.6;
    marks.push(el("line", { class: "note", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM }));
    marks.push(
      el(
        "text",
        { class: "note-text", x: at + (right ? 6 : -6), y: TOP + 12, "text-anchor": right ? "start" : "end" },
        note.text,
      ),
    );
  }
  return el(
    "svg",
    { class: "plot", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": title },
    el("title", {}, title),
    ...marks,
    el("path", { class: "curve", d: `M${points.join("L")}` }),
    el("text", { x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, xName),
    el("text", { transform: `translate(13 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" }, yName),
  );
}

function scale(from, to, low, high) {
  const width = to - from || 1;
  return (value) => low + ((value - from) / width) * (high - low);
}

function ticks(low, high, log) {
  const found = [];
  if (log) {
    for (let value = 10 ** Math.ceil(Math.log10(low)); value <= high; value *= 10) found.push(value);
    return found;
  }
  const rough = (high - low) / 4 || 1;
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * magnitude).find((size) => size >= rough);
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) found.push(value);
  return found;
}

function short(value) {
  return Number(value.toPrecision(3)).toLocaleString("en");
}
