"use strict";
// Sorting: a number's unit counts, so that 900 µs is less than 1 ms.
(() => {
  const scale = {ns: 1e-9, "µs": 1e-6, ms: 1e-3, s: 1, "%": 1, B: 1, KiB: 1024, MiB: 2 ** 20, GiB: 2 ** 30,
    TiB: 2 ** 40, "MB/s": 1e6, "GB/s": 1e9, k: 1e3, M: 1e6, G: 1e9, T: 1e12};
  const value = (text) => {
    const found = /^[<±]?([-+]?[\d,]+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(\S*)/.exec(text);
    return found ? parseFloat(found[1].replaceAll(",", "")) * (scale[found[2]] ?? 1) : null;
  };
  for (const table of document.querySelectorAll("table")) {
    const body = table.tBodies[0];
    if (body.rows.length < 3) continue;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.title = "Sort by " + head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const number = head.classList.contains("n");
        const was = head.getAttribute("aria-sort");
        const up = was ? was === "descending" : !number;
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const sums = [...body.rows].filter((row) => row.classList.contains("sum"));
        const rows = [...body.rows].filter((row) => !row.classList.contains("sum"));
        const key = (row) => {
          const text = row.cells[column].textContent.trim();
          return number ? value(text) : text.toLowerCase();
        };
        const keys = new Map(rows.map((row) => [row, key(row)]));
        rows.sort((a, b) => {
          const x = keys.get(a), y = keys.get(b);
          if (x === null || y === null) return (x === null) - (y === null);
          return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1);
        });
        body.append(...rows, ...sums);
      });
    });
  }
  for (const field of document.querySelectorAll("[data-filter]")) {
    const bar = field.closest(".filter");
    const section = field.closest("section");
    bar.hidden = false;
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      let shown = 0, all = 0;
      for (const body of section.querySelectorAll("tbody")) {
        for (const row of body.rows) {
          all += 1;
          row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
          shown += !row.hidden;
        }
      }
      bar.querySelector("[role=status]").textContent = wanted ? `${shown} of ${all} rows` : "";
    });
  }
})();

