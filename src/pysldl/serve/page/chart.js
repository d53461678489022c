// A curve with two axes, drawn as SVG.

import { el } from "/page/dom.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [520, 300, 54, 44, 14, 16];

export function lineChart({ title, x, y, xName, yName, yRange, yFormat = short, log = false, note = null }) {
  const bend = log ? Math.log10 : (value) => value;
  const xs = scale(bend(Math.min(...x)), bend(Math.max(...x)), LEFT, WIDTH - RIGHT);
  const [low, high] = yRange ?? [Math.min(...y), Math.max(...y)];
  const ys = scale(bend(low), bend(high), HEIGHT - BOTTOM, TOP);
  const points = x.map((value, i) => `${xs(bend(value)).toFixed(1)},${ys(bend(y[i])).toFixed(1)}`);
  const marks = [];
  for (const value of ticks(Math.min(...x), Math.max(...x), log)) {
    const at = xs(bend(value));
    marks.push(el("line", { class: "axis", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM }));
    marks.push(el("text", { x: at, y: HEIGHT - BOTTOM + 17, "text-anchor": "middle" }, short(value)));
  }
  for (const value of ticks(low, high, log)) {
    const at = ys(bend(value));
    marks.push(el("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at }));
    marks.push(el("text", { x: LEFT - 7, y: at + 4, "text-anchor": "end" }, yFormat(value)));
  }
  if (note) {
    const at = xs(bend(note.x));
    const right = at < WIDTH * 0.6;
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
    { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title },
    el("title", {}, title),
    ...marks,
    el("path", { class: "curve", d: `M${points.join("L")}` }),
    el("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, xName),
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
