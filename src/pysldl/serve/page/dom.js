// Elements from a tag, its attributes and what is inside; text is always text, never markup.

export const $ = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...inside) {
  const svg = ["svg", "path", "line", "text", "circle", "title"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...inside.flat().filter((part) => part !== null));
  return made;
}

export function bar(share, kind = "") {
  const made = el("span", { class: `bar ${kind}`, "aria-hidden": "true" }, el("span"));
  made.firstChild.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return made;
}

export const percent = (share) => (share < 0.01 ? "<1 %" : `${Math.round(100 * share)} %`);

export const count = (n) => n.toLocaleString("en");

export const rows = (n) => (n === 1 ? "1 row" : `${count(n)} rows`);

export const labelAddress = (label) => `#relations/${encodeURIComponent(label)}`;

// A link to where the vocabulary describes a label; only addresses of the web are links.
export function uriLink(uri) {
  if (!/^https?:\/\//i.test(uri ?? "")) return uri ? el("span", { class: "quiet uri" }, uri) : null;
  return el("a", { href: uri, class: "uri", rel: "noopener noreferrer", target: "_blank" }, uri);
}

// Offers what was made here as a file.
export function download(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

export const csvLine = (cells) =>
  cells.map((cell) => (/[",\r\n]/.test(cell) ? `"${String(cell).replaceAll('"', '""')}"` : String(cell))).join(",") + "\r\n";
