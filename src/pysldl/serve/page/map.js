// The map of the labels on a canvas: places come from the service, here they are drawn, moved and found again.

// The strongest arrows are drawn until their lengths add up to this part of the canvas's area: beyond, they are haze.
const MOST_INK = 0.2;
const MOST_NAMES = 140;
// Of the labels in view the most frequent are drawn: more are only dust, and zooming in brings them out.
const MOST_NODES = 6000;
const NODE_BANDS = 4;
// One long path takes much longer to fill, or to stroke, than many short ones.
const NODES_A_PATH = 400;
const ARROWS_A_PATH = 50;
// What lies over the canvas, which no name shall hide under: the buttons in its corner, the line of help below.
const BUTTONS = { width: 64, height: 200 };
const HELP = { width: 900, height: 30 };

export class LabelMap {
  constructor(canvas, { onSelect }) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.onSelect = onSelect;
    this.data = null;
    this.selected = -1;
    this.hovered = -1;
    this.leastCount = 1;
    this.showsLinks = false;
    this.out = new Map();
    this.in = new Map();
    this.view = { x: 0.5, y: 0.5, scale: 1 };
    this.extent = [1, 1];
    this.frame = 0;
    this.widths = new Map();
    this.listen();
  }

  // What is shown

  setData(data) {
    this.data = data;
    [this.x, this.y] = [Float64Array.from(data.x), Float64Array.from(data.y)];
    this.radius = Float32Array.from(data.counts, (n) => 2.2 + 1.15 * Math.log2(1 + n));
    this.order = data.counts.map((_, i) => i).sort((a, b) => data.counts[b] - data.counts[a]);
    // From 0, the rarest, to 1, the most frequent, in orders of magnitude.
    this.most = Math.max(1, data.counts[this.order[0]] ?? 1);
    const top = Math.log2(1 + this.most);
    this.weight = Float32Array.from(data.counts, (n) => Math.log2(1 + n) / top);
    this.arrows = data.source.map((_, i) => i).sort((a, b) => data.strength[b] - data.strength[a]);
    // Few relations are strong, so darkness goes by rank.
    this.darkness = new Float32Array(data.source.length);
    this.arrows.forEach((arrow, rank) => (this.darkness[arrow] = 1 - rank / this.arrows.length));
    this.grid = new Grid(data);
    this.frameIt();
    this.fit(false);
  }

  // Where the labels that can be shown lie: their middle, and how far they reach from there.
  frameIt() {
    const box = [1, 1, 0, 0];
    for (let i = 0; i < this.x.length; i++)
      if (this.data.counts[i] > 0) {
        box[0] = Math.min(box[0], this.x[i]);
        box[1] = Math.min(box[1], this.y[i]);
        box[2] = Math.max(box[2], this.x[i]);
        box[3] = Math.max(box[3], this.y[i]);
      }
    this.middle = { x: (box[0] + box[2]) / 2, y: (box[1] + box[3]) / 2 };
    this.extent = [Math.max(box[2] - box[0], 0.05), Math.max(box[3] - box[1], 0.05)];
  }

  setLeastCount(n) {
    this.leastCount = n;
    this.draw();
  }

  // Whether the broader and narrower labels of the vocabulary are joined by lines.
  setLinks(shown) {
    this.showsLinks = shown;
    this.draw();
  }

  // What is seen now, as a picture.
  picture() {
    this.paint();
    const copy = document.createElement("canvas");
    [copy.width, copy.height] = [this.canvas.width, this.canvas.height];
    const pen = copy.getContext("2d");
    pen.fillStyle = getComputedStyle(this.canvas).getPropertyValue("--paper").trim();
    pen.fillRect(0, 0, copy.width, copy.height);
    pen.drawImage(this.canvas, 0, 0);
    return new Promise((resolve) => copy.toBlob(resolve));
  }

  // `out` and `in`: strength by label of the relations from the chosen label, and of those to it.
  select(label, out = new Map(), into = new Map(), move = true) {
    this.selected = label;
    this.out = out;
    this.in = into;
    if (move && label >= 0) this.moveTo({ x: this.data.x[label], y: this.data.y[label], scale: this.scaleFor(label) });
    else this.draw();
  }

  // Near enough to read, far enough to see where most of the arrows lead.
  scaleFor(label) {
    const { x, y } = this.data;
    const far = [...this.out.keys(), ...this.in.keys()].map((i) => Math.hypot(x[i] - x[label], y[i] - y[label]));
    const reach = far.sort((a, b) => a - b)[Math.floor(0.8 * far.length)] ?? 0;
    const wanted = (0.42 * Math.min(this.width, this.height)) / Math.max(reach, 1e-6);
    return Math.min(Math.max(wanted, this.fitScale()), this.fitScale() * 8);
  }

  fit(smooth = true) {
    const whole = { ...this.middle, scale: this.fitScale() };
    if (smooth) this.moveTo(whole);
    else {
      this.view = whole;
      this.draw();
    }
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    this.journey = null; // whoever takes hold of the map is not carried on
    const scale = Math.min(Math.max(this.view.scale * factor, this.fitScale() * 0.5), this.fitScale() * 60);
    const before = this.toWorld(x, y);
    this.view = { ...this.view, scale };
    const after = this.toWorld(x, y);
    this.view = { scale, x: this.view.x + before[0] - after[0], y: this.view.y + before[1] - after[1] };
    this.draw();
  }

  pan(dx, dy) {
    this.journey = null;
    const [x, y] = this.toWorld(this.width / 2 + dx, this.height / 2 + dy);
    this.view = { ...this.view, x, y };
    this.draw();
  }

  resize() {
    const { width, height } = this.canvas.getBoundingClientRect();
    if (!width || (width === this.width && height === this.height)) return;
    const first = !this.width;
    const sharpness = devicePixelRatio || 1;
    [this.width, this.height] = [width, height];
    [this.canvas.width, this.canvas.height] = [width * sharpness, height * sharpness];
    this.pen.setTransform(sharpness, 0, 0, sharpness, 0, 0);
    if (first && this.data) this.fit(false);
    else this.draw();
  }

  // Where a label is on the canvas, for whoever wants to point at it.
  place(label) {
    return this.toScreen(this.data.x[label], this.data.y[label]);
  }

  // Coordinates

  // The places fill a square; on a wide canvas they are spread to the sides, on a narrow one upwards.
  stretch() {
    const aspect = Math.sqrt((this.width || 1) / (this.height || 1));
    return [Math.min(1.3, Math.max(0.8, aspect)), Math.min(1.3, Math.max(0.8, 1 / aspect))];
  }

  fitScale() {
    const [sx, sy] = this.stretch();
    const [wide, high] = this.extent;
    return 0.84 * Math.min((this.width || 1) / (sx * wide), (this.height || 1) / (sy * high));
  }

  // From places to the canvas: factor and offset of both axes, and what a label's radius is multiplied by.
  lens() {
    const { view } = this;
    const [sx, sy] = this.stretch();
    const [kx, ky] = [sx * view.scale, sy * view.scale];
    const growth = Math.min(1.6, Math.sqrt(view.scale / this.fitScale()) * this.crowd());
    return { kx, ky, ox: this.width / 2 - view.x * kx, oy: this.height / 2 - view.y * ky, growth };
  }

  toScreen(x, y) {
    const { kx, ky, ox, oy } = this.lens();
    return [x * kx + ox, y * ky + oy];
  }

  toWorld(x, y) {
    const { view } = this;
    const [sx, sy] = this.stretch();
    return [
      (x - this.width / 2) / (sx * view.scale) + view.x,
      (y - this.height / 2) / (sy * view.scale) + view.y,
    ];
  }

  moveTo(goal) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.view = goal;
      this.draw();
      return;
    }
    const from = this.view;
    const start = performance.now();
    this.journey = goal;
    const step = (now) => {
      if (this.journey !== goal) return;
      const t = Math.min(1, Math.max(0, (now - start) / 350));
      const ease = 1 - (1 - t) ** 3;
      const mix = (a, b) => a + (b - a) * ease;
      this.view = { x: mix(from.x, goal.x), y: mix(from.y, goal.y), scale: mix(from.scale, goal.scale) };
      this.draw();
      if (t < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  // Drawing

  draw() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      if (this.data && this.width) this.paint();
    });
  }

  paint() {
    const style = getComputedStyle(this.canvas);
    const color = (name) => style.getPropertyValue(name).trim();
    const { pen } = this;
    pen.clearRect(0, 0, this.width, this.height);
    const visible = this.visible();
    this.now = this.lens(); // once a picture, not once a label
    this.paintArrows(visible, color("--thread"));
    if (this.showsLinks) this.paintLinks(visible, color("--link"));
    this.paintNodes(visible, color("--node"), color("--accent"));
    if (this.selected >= 0) this.paintChosen(color);
    this.paintNames(visible, color);
  }

  visible() {
    const { x, y, leastCount } = this;
    const { counts } = this.data;
    const seen = new Uint8Array(x.length);
    const [left, top] = this.toWorld(-20, -20);
    const [right, bottom] = this.toWorld(this.width + 20, this.height + 20);
    for (let i = 0; i < seen.length; i++)
      seen[i] = counts[i] >= leastCount && x[i] > left && x[i] < right && y[i] > top && y[i] < bottom;
    return seen;
  }

  size(label) {
    return this.radius[label] * this.lens().growth;
  }

  // Many labels are drawn smaller, and so are labels on a small canvas.
  crowd() {
    const canvas = Math.min(1, Math.min(this.width, this.height) / 640);
    return canvas * Math.min(1, Math.max(0.2, 15 / Math.sqrt(this.data.x.length)));
  }

  paintArrows(visible, ink) {
    const { data, pen, x, y, leastCount } = this;
    const { kx, ky } = this.now;
    const bands = [[], [], [], []];
    const across = this.width + this.height;
    let room = MOST_INK * this.width * this.height;
    let drawn = 0;
    for (const arrow of this.arrows) {
      const a = data.source[arrow];
      const b = data.target[arrow];
      if (!(visible[a] || visible[b]) || data.counts[a] < leastCount || data.counts[b] < leastCount) continue;
      bands[Math.min(3, Math.floor(this.darkness[arrow] * 4))].push(arrow);
      drawn++;
      room -= Math.min(across, Math.abs(x[a] - x[b]) * kx + Math.abs(y[a] - y[b]) * ky);
      if (room < 0) break;
    }
    pen.strokeStyle = pen.fillStyle = ink;
    const heads = drawn < 1500;
    const calm = (this.selected >= 0 ? 0.35 : 1) * Math.min(1, Math.sqrt(1500 / drawn));
    bands.forEach((band, level) => {
      pen.globalAlpha = calm * (0.25 + 0.22 * level);
      pen.lineWidth = 0.7 + 0.25 * level;
      for (let start = 0; start < band.length; start += ARROWS_A_PATH) {
        pen.beginPath();
        for (const arrow of band.slice(start, start + ARROWS_A_PATH))
          this.trace(data.source[arrow], data.target[arrow], heads ? 4 + level : 0);
        pen.stroke();
      }
    });
    pen.globalAlpha = 1;
  }

  // From the narrower label to the broader one, dashed, so that no one takes it for what the data say.
  paintLinks(visible, ink) {
    const { data, pen, leastCount } = this;
    pen.strokeStyle = ink;
    pen.lineWidth = 1.2;
    pen.setLineDash([5, 4]);
    const drawn = data.narrower.filter(
      ([a, b]) => (visible[a] || visible[b]) && data.counts[a] >= leastCount && data.counts[b] >= leastCount,
    );
    for (let start = 0; start < Math.min(drawn.length, MOST_NODES); start += ARROWS_A_PATH) {
      pen.beginPath();
      for (const [a, b] of drawn.slice(start, start + ARROWS_A_PATH)) this.trace(a, b, 6);
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  trace(a, b, head) {
    const { pen, x, y } = this;
    const { kx, ky, ox, oy, growth } = this.now;
    const x1 = x[a] * kx + ox;
    const y1 = y[a] * ky + oy;
    let x2 = x[b] * kx + ox;
    let y2 = y[b] * ky + oy;
    const length = Math.sqrt((x2 - x1) ** 2 + (y2 - y1) ** 2);
    const back = this.radius[b] * growth + 1;
    if (length <= back + head) return;
    const ux = (x2 - x1) / length;
    const uy = (y2 - y1) / length;
    x2 -= ux * back;
    y2 -= uy * back;
    pen.moveTo(x1, y1);
    pen.lineTo(x2, y2);
    if (!head) return;
    pen.moveTo(x2 - ux * head - uy * head * 0.55, y2 - uy * head + ux * head * 0.55);
    pen.lineTo(x2, y2);
    pen.lineTo(x2 - ux * head + uy * head * 0.55, y2 - uy * head - ux * head * 0.55);
  }

  paintNodes(visible, ink, accent) {
    const { pen, x, y, radius } = this;
    const { kx, ky, ox, oy, growth } = this.now;
    const calm = this.selected >= 0;
    const bands = Array.from({ length: NODE_BANDS }, () => []);
    let drawn = 0;
    for (const i of this.order) {
      if (!visible[i]) continue;
      bands[Math.min(NODE_BANDS - 1, Math.floor(this.weight[i] * NODE_BANDS))].push(i);
      if (++drawn >= MOST_NODES) break;
    }
    // Frequent labels stand out; all of them step back behind a chosen one.
    pen.fillStyle = calm ? ink : accent;
    bands.forEach((band, level) => {
      pen.globalAlpha = calm ? 0.4 : 0.4 + (0.5 * level) / (NODE_BANDS - 1);
      pen.beginPath();
      let inPath = 0;
      for (const i of band) {
        const left = x[i] * kx + ox;
        const top = y[i] * ky + oy;
        const r = radius[i] * growth;
        if (r < 1.6) pen.fillRect(left - r, top - r, 2 * r, 2 * r);
        else {
          pen.moveTo(left + r, top);
          pen.arc(left, top, r, 0, 7);
          if (++inPath % NODES_A_PATH === 0) {
            pen.fill();
            pen.beginPath();
          }
        }
      }
      pen.fill();
    });
    pen.globalAlpha = 1;
    if (this.hovered >= 0) this.dot(this.hovered, accent);
  }

  paintChosen(color) {
    const draw = (others, ink, outward) => {
      this.pen.strokeStyle = ink;
      const largest = Math.max(...others.values(), 1e-9);
      for (const [other, strength] of others) {
        this.pen.lineWidth = 1 + (2.2 * strength) / largest;
        this.pen.beginPath();
        if (outward) this.trace(this.selected, other, 9);
        else this.trace(other, this.selected, 9);
        this.pen.stroke();
        this.dot(other, ink);
      }
    };
    draw(this.in, color("--in"), false);
    draw(this.out, color("--out"), true);
    this.dot(this.selected, color("--ink"), 2);
  }

  dot(label, ink, more = 0) {
    const [x, y] = this.place(label);
    this.pen.fillStyle = ink;
    this.pen.beginPath();
    this.pen.arc(x, y, Math.max(this.size(label), 3) + more, 0, 7);
    this.pen.fill();
  }

  // Names where there is room: first of what is chosen, then of the frequent labels.
  paintNames(visible, color) {
    const { data, pen } = this;
    const taken = [
      [this.width - BUTTONS.width, 0, this.width, BUTTONS.height],
      [0, this.height - HELP.height, this.width > HELP.width ? HELP.width : 0, this.height],
    ];
    for (const label of this.order) {
      if (this.weight[label] < 0.6 || taken.length > MOST_NAMES) break; // names keep clear of the large labels
      const [x, y] = this.place(label);
      const r = this.size(label);
      if (visible[label]) taken.push([x - r, y - r, x + r, y + r]);
    }
    const chosen = [this.selected, this.hovered, ...this.out.keys(), ...this.in.keys()].filter((i) => i >= 0);
    const [ink, quiet, paper] = [color("--ink"), color("--quiet"), color("--paper")];
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    let named = 0;
    const name = (label, strong) => {
      const frequent = this.selected < 0 && this.weight[label] > 0.8;
      const size = strong || frequent ? 13 : 11.5;
      pen.font = `${strong || frequent ? 600 : 400} ${size}px system-ui, sans-serif`;
      const text = data.labels[label].length > 34 ? `${data.labels[label].slice(0, 33)}…` : data.labels[label];
      const [x, y] = this.place(label);
      const width = this.widthOf(text);
      const gap = Math.max(this.size(label), 3) + 4;
      // To the right where there is room, else to the left.
      const box = [x + gap, x - gap - width]
        .filter((left) => strong || (left >= 4 && left + width <= this.width - 4))
        .map((left) => [left, y - size * 0.7, left + width, y + size * 0.7])
        .find((box) => !taken.some((b) => b[0] < box[2] && box[0] < b[2] && b[1] < box[3] && box[1] < b[3]));
      if (!box) return;
      taken.push(box);
      pen.strokeStyle = paper;
      pen.lineWidth = 3.5;
      pen.strokeText(text, box[0], y);
      pen.fillStyle = strong || frequent ? ink : quiet;
      pen.fillText(text, box[0], y);
      named++;
    };
    for (const label of new Set(chosen)) name(label, true);
    const done = new Set(chosen);
    let tried = 0;
    const room = this.selected >= 0 ? MOST_NAMES / 3 : MOST_NAMES;
    for (const label of this.order) {
      if (named >= room || tried > 4 * MOST_NAMES) break;
      if (!visible[label] || done.has(label)) continue;
      tried++;
      name(label, false);
    }
  }

  // How wide a text is in the pen's font; the same names are asked for again and again.
  widthOf(text) {
    const key = `${this.pen.font} ${text}`;
    if (!this.widths.has(key)) {
      if (this.widths.size > 5000) this.widths.clear();
      this.widths.set(key, this.pen.measureText(text).width);
    }
    return this.widths.get(key);
  }

  // Hands

  listen() {
    const { canvas } = this;
    const touches = new Map();
    let moved = false;
    let spread = 0;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      touches.set(event.pointerId, at(event));
      moved = touches.size > 1;
      this.journey = null;
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      if (!touches.has(event.pointerId)) return this.hover(x, y);
      const [x0, y0] = touches.get(event.pointerId);
      if (Math.hypot(x - x0, y - y0) < 3 && !moved) return undefined;
      moved = true;
      touches.set(event.pointerId, [x, y]);
      if (touches.size === 1) this.pan(x0 - x, y0 - y);
      else {
        const [a, b] = [...touches.values()];
        const distance = Math.hypot(a[0] - b[0], a[1] - b[1]);
        if (spread) this.zoom(distance / spread, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
        spread = distance;
      }
      return undefined;
    });
    const lift = (event) => {
      if (!touches.delete(event.pointerId)) return;
      spread = 0;
      if (!moved && event.type === "pointerup") this.onSelect(this.find(...at(event)));
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", () => this.hover(-99, -99));
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), ...at(event));
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-60, 0], ArrowRight: [60, 0], ArrowUp: [0, -60], ArrowDown: [0, 60] }[event.key];
      if (step) this.pan(...step);
      else if (event.key === "+" || event.key === "=") this.zoom(1.4);
      else if (event.key === "-") this.zoom(1 / 1.4);
      else if (event.key === "0") this.fit();
      else if (event.key === "Escape") this.onSelect(-1);
      else return;
      event.preventDefault();
    });
    new ResizeObserver(() => this.resize()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  hover(x, y) {
    const label = this.data ? this.find(x, y) : -1;
    this.canvas.classList.toggle("over", label >= 0);
    if (label === this.hovered) return;
    this.hovered = label;
    this.draw();
  }

  find(x, y) {
    const reach = 14;
    let best = -1;
    let nearest = Infinity;
    for (const label of this.grid.near(...this.toWorld(x, y), reach / this.view.scale)) {
      if (this.data.counts[label] < this.leastCount) continue;
      const [lx, ly] = this.place(label);
      const distance = Math.hypot(lx - x, ly - y) - this.size(label);
      if (distance < Math.min(nearest, reach)) [best, nearest] = [label, distance];
    }
    return best;
  }
}

// Labels by cell, so that finding one does not ask all of them.
class Grid {
  constructor({ x, y }) {
    this.side = Math.max(1, Math.ceil(Math.sqrt(x.length / 4)));
    this.cells = new Map();
    x.forEach((_, label) => {
      const key = this.key(this.cell(x[label]), this.cell(y[label]));
      if (!this.cells.has(key)) this.cells.set(key, []);
      this.cells.get(key).push(label);
    });
  }

  cell(value) {
    return Math.min(this.side - 1, Math.max(0, Math.floor(value * this.side)));
  }

  key(column, row) {
    return row * this.side + column;
  }

  *near(x, y, reach) {
    const more = reach + 0.03;
    for (let row = this.cell(y - more); row <= this.cell(y + more); row++)
      for (let column = this.cell(x - more); column <= this.cell(x + more); column++)
        yield* this.cells.get(this.key(column, row)) ?? [];
  }
}
