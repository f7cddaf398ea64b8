// The step, kernel by kernel.
(() => {
  const holder = document.getElementById("zoom-data");
  if (!holder) return;
  const step = JSON.parse(holder.textContent);
  const zoom = document.getElementById("zoom");
  const canvas = document.getElementById("zoom-canvas");
  const said = document.getElementById("zoom-said");
  const find = document.getElementById("zoom-find");
  const pen = canvas.getContext("2d");
  zoom.hidden = false;
  const LEFT = 84, ROW = 15, LANE = 26, AXIS = 24;
  let from = 0, until = step.span, wanted = "", hits = [], hit = -1, chosen = null, painted = false;

  // Where everything is, top to bottom.
  const rows = [];
  let height = 6;
  for (const rank of step.ranks) {
    rows.push({kind: "bands", bands: rank.steps, y: height, label: "rank " + rank.rank, high: ROW, strong: true});
    height += ROW + 1;
    if (rank.layers.length) {
      rows.push({kind: "bands", bands: rank.layers.map((l) => [l[0], l[1], String(l[2]), 0]), y: height, label: "layers", high: ROW - 2});
      height += ROW - 1;
    }
    const deep = Math.max(-1, ...rank.nvtx.map((b) => b[3]));
    for (let depth = 0; depth <= deep; depth++) {
      rows.push({kind: "bands", bands: rank.nvtx.filter((b) => b[3] === depth), y: height, label: depth ? "" : "NVTX (CPU)", high: ROW - 1});
      height += ROW;
    }
    for (const lane of rank.lanes) {
      rows.push({kind: "lane", blocks: lane.blocks, rank: rank.rank, y: height, label: lane.label, high: LANE});
      height += LANE + 3;
    }
    height += 8;
  }
  height += AXIS;

  const time = (ns) => {
    const size = Math.abs(ns);
    const four = (value, unit) => value.toFixed(Math.abs(value) < 9.9995 ? 3 : Math.abs(value) < 99.995 ? 2 : 1) + " " + unit;
    if (size < 999.5) return Math.round(ns) + " ns";
    if (size < 999950) return four(ns / 1e3, "µs");
    if (size < 999950000) return four(ns / 1e6, "ms");
    return four(ns / 1e9, "s");
  };
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const matches = new Set();

  function paint() {
    painted = false;
    const width = canvas.clientWidth, dots = window.devicePixelRatio || 1;
    if (!width) return;
    canvas.style.height = height + "px";
    if (canvas.width !== Math.round(width * dots) || canvas.height !== Math.round(height * dots)) {
      canvas.width = Math.round(width * dots);
      canvas.height = Math.round(height * dots);
    }
    const ink = {};
    for (const name of ["page", "panel", "text", "muted", "line", "strong"]) ink[name] = color(name);
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.fillStyle = ink.page;
    pen.fillRect(0, 0, width, height);
    const room = width - LEFT - 4, scale = room / (until - from);
    const x = (t) => LEFT + (t - from) * scale;
    pen.textBaseline = "middle";
    const font = "sans-serif";
    // The axis.
    const raw = (until - from) / Math.max(2, room / 110);
    const power = 10 ** Math.floor(Math.log10(raw));
    const gap = Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((g) => g >= raw) || raw);
    pen.font = "11px " + font;
    pen.textAlign = "center";
    for (let t = Math.ceil(from / gap) * gap; t <= until; t += gap) {
      pen.fillStyle = ink.line;
      pen.fillRect(x(t), 0, 1, height - AXIS + 4);
      pen.fillStyle = ink.muted;
      const label = time(t), half = pen.measureText(label).width / 2;
      if (x(t) + half < width) pen.fillText(label, Math.max(x(t), half), height - AXIS / 2);
    }
    for (const row of rows) {
      pen.textAlign = "right";
      pen.fillStyle = row.strong ? ink.text : ink.muted;
      pen.font = (row.strong ? "bold " : "") + "11px " + font;
      pen.fillText(row.label, LEFT - 6, row.y + row.high / 2, LEFT - 8);
      pen.textAlign = "left";
      pen.save();
      pen.beginPath();
      pen.rect(LEFT, row.y - 1, room, row.high + 2);
      pen.clip();
      if (row.kind === "bands") {
        pen.font = "10px " + font;
        row.bands.forEach((band, i) => {
          const a = x(band[0]), w = Math.max(0.5, band[1] * scale);
          if (a + w < LEFT || a > width) return;
          pen.fillStyle = ink.muted;
          pen.globalAlpha = i % 2 ? 0.18 : 0.32;
          pen.fillRect(a, row.y, w - (w > 3 ? 1 : 0), row.high);
          pen.globalAlpha = 1;
          pen.fillStyle = ink.text;
          const left = Math.max(a, LEFT) + 3;
          if (pen.measureText(band[2]).width < a + w - left - 2) pen.fillText(band[2], left, row.y + row.high / 2 + 0.5);
        });
      } else {
        pen.fillStyle = ink.panel;
        pen.fillRect(LEFT, row.y, room, row.high);
        pen.font = "10px " + font;
        const blocks = row.blocks;
        for (let i = 0; i < blocks.length; i += 4) {
          const a = x(blocks[i]), w = blocks[i + 1] * scale;
          if (a + w < LEFT || a > width) continue;
          const category = blocks[i + 2], name = blocks[i + 3];
          const dim = wanted && !matches.has(name);
          pen.globalAlpha = dim ? 0.15 : 1;
          pen.fillStyle = step.colors[category];
          // What is thinner than a pixel covers as much of it as it lasts.
          if (w < 1) pen.globalAlpha *= Math.max(w, 0.04);
          pen.fillRect(a, row.y, Math.max(w, 1), row.high);
          pen.globalAlpha = 1;
          if (chosen && chosen.row === row && chosen.at === i) {
            pen.strokeStyle = ink.text;
            pen.lineWidth = 2;
            pen.strokeRect(a + 1, row.y + 1, Math.max(w - 2, 1), row.high - 2);
          }
          if (w > 34 && !dim) {
            const left = Math.max(a, LEFT) + 3, space = Math.min(a + w, width) - left - 3;
            let text = step.names[name];
            const most = Math.floor(space / 5.6);
            if (most >= 4) {
              if (text.length > most) text = text.slice(0, most - 1) + "…";
              pen.fillStyle = step.inks[category];
              pen.fillText(text, left, row.y + row.high / 2 + 0.5, space);
            }
          }
        }
      }
      pen.restore();
    }
  }
  const draw = () => {
    if (!painted) {
      painted = true;
      requestAnimationFrame(paint);
    }
  };
  function show(a, b) {
    const least = 200, span = Math.min(Math.max(b - a, least), step.span);
    from = Math.min(Math.max(a, 0), step.span - span);
    until = from + span;
    draw();
  }
  function closer(factor, at) {
    const middle = at === undefined ? (from + until) / 2 : at;
    show(middle - (middle - from) / factor, middle + (until - middle) / factor);
  }
  function choose(row, at) {
    chosen = {row, at};
    const b = row.blocks;
    said.textContent = `${step.names[b[at + 3]]} (${step.categories[b[at + 2]]}): ${time(b[at + 1])}, ` +
      `rank ${row.rank}, ${row.label}, ${time(b[at])} after the window's start`;
    draw();
  }
  function search() {
    wanted = find.value.trim().toLowerCase();
    matches.clear();
    hits = [];
    hit = -1;
    if (wanted) {
      step.names.forEach((name, i) => { if (name.toLowerCase().includes(wanted)) matches.add(i); });
      let sum = 0;
      for (const row of rows) {
        for (let i = 0; row.blocks && i < row.blocks.length; i += 4) {
          if (matches.has(row.blocks[i + 3]) || step.categories[row.blocks[i + 2]].includes(wanted)) {
            matches.add(row.blocks[i + 3]);
            hits.push([row, i]);
            sum += row.blocks[i + 1];
          }
        }
      }
      said.textContent = `${hits.length} activities of ${matches.size} names, ${time(sum)} in all`;
    } else {
      said.textContent = "";
    }
    draw();
  }
  function next() {
    if (!hits.length) return;
    hit = (hit + 1) % hits.length;
    const [row, at] = hits[hit];
    const start = row.blocks[at], length = row.blocks[at + 1];
    const span = Math.max(Math.min(until - from, step.span / 8), length * 6);
    show(start + length / 2 - span / 2, start + length / 2 + span / 2);
    choose(row, at);
  }
  const when = (event) => {
    const box = canvas.getBoundingClientRect();
    return from + (event.clientX - box.left - LEFT) / (box.width - LEFT - 4) * (until - from);
  };
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = {x: event.clientX, from, until, moved: false};
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const by = (event.clientX - drag.x) / (canvas.clientWidth - LEFT - 4) * (drag.until - drag.from);
    drag.moved ||= Math.abs(event.clientX - drag.x) > 3;
    if (drag.moved) show(drag.from - by, drag.until - by);
  });
  canvas.addEventListener("pointerup", (event) => {
    const moved = drag && drag.moved;
    drag = null;
    if (moved) return;
    const y = event.clientY - canvas.getBoundingClientRect().top, t = when(event);
    for (const row of rows) {
      if (row.kind !== "lane" || y < row.y || y > row.y + row.high) continue;
      const slack = (until - from) / canvas.clientWidth * 2;
      for (let i = 0; i < row.blocks.length; i += 4) {
        if (t >= row.blocks[i] - slack && t <= row.blocks[i] + row.blocks[i + 1] + slack) return choose(row, i);
      }
    }
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    closer(event.deltaY < 0 ? 1.3 : 1 / 1.3, when(event));
  }, {passive: false});
  canvas.addEventListener("keydown", (event) => {
    const by = (until - from) / 5;
    const keys = {ArrowLeft: () => show(from - by, until - by), ArrowRight: () => show(from + by, until + by),
      "+": () => closer(1.6), "=": () => closer(1.6), "-": () => closer(1 / 1.6), "0": () => show(0, step.span)};
    if (keys[event.key] && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      keys[event.key]();
    }
  });
  document.getElementById("zoom-in").addEventListener("click", () => closer(2));
  document.getElementById("zoom-out").addEventListener("click", () => closer(0.5));
  document.getElementById("zoom-all").addEventListener("click", () => show(0, step.span));
  document.getElementById("zoom-next").addEventListener("click", next);
  find.addEventListener("input", search);
  find.addEventListener("keydown", (event) => { if (event.key === "Enter") next(); });
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme:dark)").addEventListener("change", draw);
  paint();
})();
