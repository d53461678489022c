"use strict";

// Click on a header, or Enter and Space on it, sorts the body; rows without a value stay last either way.
for (const table of document.querySelectorAll("table.sortable")) {
  const headers = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const original = [...body.rows];

  const compare = (a, b) => {
    const numbers = [Number(a), Number(b)];
    return numbers.some(Number.isNaN) ? a.localeCompare(b, "en", { numeric: true }) : numbers[0] - numbers[1];
  };

  const sortBy = (column, direction) => {
    const keyed = original.map((row) => [row.cells[column].dataset.key, row]);
    const present = keyed.filter(([key]) => key !== "");
    const absent = keyed.filter(([key]) => key === "");
    present.sort(([a], [b]) => direction * compare(a, b));
    body.append(...[...present, ...absent].map(([, row]) => row));
  };

  headers.forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      // Names start from A, numbers from the highest, which is what a reader looks for first.
      const first = column === 0 ? "ascending" : "descending";
      const second = column === 0 ? "descending" : "ascending";
      const order = header.ariaSort === first ? second : first;
      headers.forEach((other) => other.setAttribute("aria-sort", "none"));
      header.setAttribute("aria-sort", order);
      sortBy(column, order === "ascending" ? 1 : -1);
    });
  });
}
