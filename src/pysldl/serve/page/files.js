// Files of texts: read here, sent in parts, and given back with a column of labels.

import { post } from "/page/api.js";
import { $, count, csvLine, download } from "/page/dom.js";

const ROWS_AT_ONCE = 50;

export function listenToFiles(facts) {
  $("file-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const [file] = $("file").files;
    if (!file) return say("Choose a file first.");
    $("file-button").disabled = true;
    try {
      const table = parse(file.name, await file.text());
      if (!table.texts.length) return say("The file holds no text.");
      const found = await tagAll(table.texts, facts);
      download(...table.written(found));
      const failed = found.filter((one) => one.problem).length;
      const left = failed ? ` ${count(failed)} could not be tagged: their labels are empty.` : "";
      say(`${count(found.length - failed)} of ${count(found.length)} texts tagged.${left}`);
    } catch (error) {
      say(error.message);
    } finally {
      $("file-button").disabled = false;
      $("file-progress").hidden = true;
    }
    return undefined;
  });
}

const say = (text) => {
  $("file-status").textContent = text;
};

async function tagAll(texts, facts) {
  const found = new Array(texts.length);
  const fits = (text) => text.trim() && size(text) < 0.9 * facts.max_bytes;
  const left = texts.map((_, row) => row).filter((row) => fits(texts[row]));
  texts.forEach((text, row) => {
    if (!fits(text)) found[row] = { labels: [], problem: text.trim() ? "too long" : "empty" };
  });
  $("file-progress").hidden = false;
  $("file-progress").max = texts.length;
  while (left.length) {
    const rows = [];
    let bytes = 0;
    while (left.length && rows.length < Math.min(ROWS_AT_ONCE, facts.max_rows)) {
      bytes += size(texts[left[0]]);
      if (rows.length && bytes > 0.9 * facts.max_bytes) break;
      rows.push(left.shift());
    }
    const answer = await post("/v1/predict", { inputs: rows.map((row) => texts[row]), k: Number($("k").value) });
    rows.forEach((row, i) => {
      const labels = answer.predictions[i].labels;
      found[row] = { labels: labels.filter((label) => label.chosen !== false) };
    });
    $("file-progress").value = texts.length - left.length;
    say(`${count(texts.length - left.length)} of ${count(texts.length)} texts tagged.`);
  }
  return found;
}

const size = (text) => new Blob([JSON.stringify(text)]).size;

// The texts of a file, and how to write it with their labels: name, content and type of the new file.
function parse(name, content) {
  const [, base, suffix] = /^(.*?)(\.[^.]*)?$/.exec(name);
  const kind = (suffix ?? "").toLowerCase();
  if (kind === ".jsonl" || kind === ".ndjson") return jsonLines(base, content);
  if (kind === ".csv" || kind === ".tsv") return table(base, content, kind === ".tsv" ? "\t" : null);
  const texts = content.split(/\r?\n/).filter((line) => line.trim());
  return { texts, written: (found) => csvFile(base, ["text"], texts.map((text) => [text]), found) };
}

function jsonLines(base, content) {
  const lines = content.split(/\r?\n/).filter((line) => line.trim());
  const rows = lines.map((line, i) => {
    try {
      const row = JSON.parse(line);
      if (typeof row.text === "string") return row;
    } catch {
      // said below
    }
    throw new Error(`Line ${i + 1} is no JSON object with a field named text.`);
  });
  const written = (found) => [
    `${base}.labels.jsonl`,
    rows.map((row, i) => JSON.stringify({ ...row, labels: found[i].labels.map(plain) }) + "\n").join(""),
    "application/x-ndjson",
  ];
  return { texts: rows.map((row) => row.text), written };
}

const plain = ({ label, uri, score, probability }) => ({ label, ...(uri ? { uri } : {}), score: probability ?? score });

function table(base, content, separator) {
  const sign = separator ?? (content.split("\n", 1)[0].includes(";") && !content.split("\n", 1)[0].includes(",") ? ";" : ",");
  const [header, ...rows] = cells(content, sign);
  if (!header) return { texts: [] };
  const column = header.findIndex((name) => name.trim().toLowerCase() === "text");
  if (column < 0) throw new Error("The file has no column named text.");
  return { texts: rows.map((row) => row[column] ?? ""), written: (found) => csvFile(base, header, rows, found) };
}

function csvFile(base, header, rows, found) {
  const joined = (list, pick) => list.map(pick).join("; ");
  const lines = rows.map((row, i) => {
    const { labels } = found[i];
    const shares = joined(labels, ({ probability, score }) => (probability ?? score).toPrecision(3));
    return csvLine([...row, joined(labels, (one) => one.label), joined(labels, (one) => one.uri ?? ""), shares]);
  });
  return [`${base}.labels.csv`, [csvLine([...header, "labels", "uris", "confidence"]), ...lines].join(""), "text/csv"];
}

// The cells of a CSV file; a cell in quotes may hold separators and ends of lines.
function cells(content, separator) {
  const rows = [];
  let row = [];
  let cell = "";
  let quoted = false;
  const end = () => {
    row.push(cell);
    if (row.length > 1 || cell) rows.push(row);
    [row, cell] = [[], ""];
  };
  for (let i = 0; i < content.length; i++) {
    const letter = content[i];
    if (quoted) {
      if (letter !== '"') cell += letter;
      else if (content[i + 1] === '"') cell += content[++i];
      else quoted = false;
    } else if (letter === '"' && !cell) quoted = true;
    else if (letter === separator) {
      row.push(cell);
      cell = "";
    } else if (letter === "\n") end();
    else if (letter !== "\r") cell += letter;
  }
  end();
  return rows;
}
