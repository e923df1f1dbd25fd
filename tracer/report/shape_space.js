// Draws each picture of shapes: regions of the entries over two chosen dims, and the calls as points.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 720, LEFT = 58, RIGHT = 14, TOP = 12, BOTTOM = 44;
  const SAMPLES = 150, MULTIPLES = 40, LARGEST = 1e7;

  const modulo = (a, b) => a - b * Math.floor(a / b);
  const BINARY = {
    "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "**": (a, b) => a ** b,
    "//": (a, b) => Math.floor(a / b), "%": modulo,
  };
  const COMPARE = {
    "==": (a, b) => a === b, "!=": (a, b) => a !== b, "<": (a, b) => a < b, "<=": (a, b) => a <= b,
    ">": (a, b) => a > b, ">=": (a, b) => a >= b,
  };

  // An expression as a function of the values of all dims.
  function compiled(tree) {
    if (typeof tree === "number") return () => tree;
    const [word, ...rest] = tree;
    if (word === "v") return at => at[rest[0]];
    if (word === "cmp") {
      const parts = rest[1].map(compiled), operators = rest[0].map(name => COMPARE[name]);
      return at => operators.every((holds, i) => holds(parts[i](at), parts[i + 1](at)));
    }
    const parts = rest.map(compiled);
    if (word in BINARY) return at => BINARY[word](parts[0](at), parts[1](at));
    if (word === "not") return at => !parts[0](at);
    if (word === "and") return at => parts.every(part => part(at));
    if (word === "or") return at => parts.some(part => part(at));
    if (word === "if") return at => (parts[0](at) ? parts[1](at) : parts[2](at));
    if (word === "max" || word === "min" || word === "abs") return at => Math[word](...parts.map(part => part(at)));
    throw new Error("unknown word " + word);
  }

  function walk(tree, visit) {
    if (!Array.isArray(tree)) return;
    visit(tree);
    (tree[0] === "cmp" ? tree[2] : tree.slice(1)).forEach(part => walk(part, visit));
  }

  const mentions = (tree, dim) => {
    let found = false;
    walk(tree, part => { found = found || (part[0] === "v" && part[1] === dim); });
    return found;
  };

  // The values at which what is said of a dim may change, and how far they go.
  function telling(space, dim) {
    const found = new Set(), steps = new Set();
    for (const entry of space.entries) for (const tree of entry.conditions) {
      if (!mentions(tree, dim)) continue;
      const numbers = [], factors = [1];
      walk(tree, part => {
        if (part[0] === "v") return;
        const operands = part[0] === "cmp" ? part[2] : part.slice(1);
        if (part[0] === "%" && typeof part[2] === "number" && mentions(part[1], dim)) steps.add(part[2]);
        else operands.forEach(each => { if (typeof each === "number") (part[0] === "*" ? factors : numbers).push(each); });
      });
      if (tree[0] === "cmp" && tree[2].some(part => part[0] === "%")) continue;  // of a remainder, not of the size
      for (const number of numbers) for (const factor of factors) if (factor > 0) found.add(Math.floor(number / factor));
    }
    return { found: [...found].filter(value => value >= 0 && value <= LARGEST), steps: [...steps].filter(step => step > 1) };
  }

  function axis(space, dim, from, to) {
    const seen = space.calls.map(call => call.at[dim]).filter(value => value !== null);
    const { found, steps } = telling(space, dim);
    let low = Math.min(...seen, ...found), high = Math.max(...seen, ...found);
    if (!isFinite(low)) { low = 0; high = 1; }
    const least = low >= 1 ? 1 : 0, spread = Math.max(1, Math.ceil((high - low) / 12));
    const few = high - low + 2 * spread <= 40;
    low = Math.max(least, few ? low - spread : Math.floor(low / 2));
    high += spread;
    const scale = few ? value => value : value => Math.log2(Math.max(value, -0.5) + 1);
    const [first, last] = [scale(low - 0.5), scale(high + 0.5)];
    const place = value => from + (scale(value) - first) / (last - first) * (to - from);
    const values = new Set();
    const add = value => { if (value >= low && value <= high) values.add(value); };
    if (high - low <= SAMPLES) for (let value = low; value <= high; value++) add(value);
    else {
      for (let i = 0; i <= SAMPLES; i++) {
        const at = first + i / SAMPLES * (last - first);
        add(Math.round(2 ** at - 1));
      }
      [...found, ...seen].forEach(value => [value - 1, value, value + 1].forEach(add));
      for (const step of steps) {
        const count = Math.min(MULTIPLES, Math.floor(high / step));
        for (let i = 0; i <= count; i++) [i * step, i * step + 1].forEach(add);
      }
    }
    const sorted = [...values].sort((a, b) => a - b);
    const edges = sorted.map((value, i) => [place(value - 0.5), place((i + 1 < sorted.length ? sorted[i + 1] : high + 1) - 0.5)]);
    return { dim, low, high, few, place, values: sorted, edges, ticks: ticks(low, high, few) };
  }

  function ticks(low, high, few) {
    const found = [];
    if (few) {
      const step = Math.max(1, Math.ceil((high - low) / 12));
      for (let value = Math.ceil(low / step) * step; value <= high; value += step) found.push(value);
    } else {
      if (low === 0) found.push(0);
      for (let value = 1; value <= high; value *= 2) if (value >= low) found.push(value);
      while (found.length > 14) for (let i = found.length - 2; i > 0; i -= 2) found.splice(i, 1);
    }
    return found;
  }

  const colour = index => `hsl(${Math.round(205 + index * 137.508) % 360} 62% 52%)`;
  const shortTitle = dim => dim.name.length > 60 ? dim.name.slice(0, 57) + "…" : dim.name;

  function make(name, attributes, parent, text) {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  }

  // Whether an entry serves the shape: what the picture does not show is as chosen, or follows from what it shows.
  function region(entry, shown) {
    const follow = [];
    const conditions = [];
    for (const tree of entry.conditions) {
      const equal = tree[0] === "cmp" && tree[1].length === 1 && tree[1][0] === "==";
      const solved = equal && [[0, 1], [1, 0]].find(([one, other]) => {
        const side = tree[2][one];
        return Array.isArray(side) && side[0] === "v" && !shown.includes(side[1]) && shown.some(dim => mentions(tree[2][other], dim));
      });
      if (solved) follow.push([tree[2][solved[0]][1], compiled(tree[2][solved[1]])]);
      else conditions.push(compiled(tree));
    }
    return at => {
      for (const [dim, value] of follow) at[dim] = value(at);
      return conditions.every(holds => holds(at));
    };
  }

  function draw(box, space, choice) {
    const shown = choice.dims.filter(dim => dim !== null);
    const flat = shown.length < 2;
    const height = flat ? 110 : 430;
    const x = axis(space, shown[0], LEFT, WIDTH - RIGHT);
    const y = flat ? null : axis(space, shown[1], height - BOTTOM, TOP);
    const svg = make("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": "shapes and the entries that serve them" });
    make("rect", { x: LEFT, y: TOP, width: WIDTH - LEFT - RIGHT, height: height - TOP - BOTTOM, class: "field" }, svg);
    const usual = () => space.dims.map((dim, i) => choice.others[i] ?? dim.usual ?? 1);
    const tests = space.entries.map(entry => region(entry, shown));
    const rows = flat ? [[TOP, height - BOTTOM]] : y.edges;
    space.entries.forEach((entry, index) => {
      const group = make("g", { class: "region", fill: colour(index), "data-entry": entry.number }, svg);
      let open = [];  // runs of the column before, to be made wider while they stay the same
      const close = run => {
        const top = Math.min(run.y0, run.y1), tall = Math.abs(run.y1 - run.y0);
        make("rect", { x: run.x0.toFixed(1), y: top.toFixed(1), width: Math.max(1.2, run.x1 - run.x0).toFixed(1), height: Math.max(1.2, tall).toFixed(1) }, group);
      };
      x.values.forEach((value, column) => {
        const runs = [];
        rows.forEach((edge, row) => {
          const at = usual();
          at[x.dim] = value;
          if (y) at[y.dim] = y.values[row];
          if (!tests[index](at)) return;
          const last = runs[runs.length - 1];
          if (last && last.row === row - 1) { last.row = row; last.y1 = edge[1]; }
          else runs.push({ row, first: row, y0: edge[0], y1: edge[1] });
        });
        const next = runs.map(run => {
          const same = open.find(old => old.first === run.first && old.row === run.row);
          if (same) { open = open.filter(old => old !== same); same.x1 = x.edges[column][1]; return same; }
          return { ...run, x0: x.edges[column][0], x1: x.edges[column][1] };
        });
        open.forEach(close);
        open = next;
      });
      open.forEach(close);
      make("title", {}, group, `entry ${entry.number}: ${entry.text}`);
    });
    axes(svg, space, x, y, height);
    points(svg, space, x, y, height, usual());
    box.replaceChildren(svg);
    return { svg, x, y, tests, usual };
  }

  function axes(svg, space, x, y, height) {
    const bottom = height - BOTTOM;
    for (const value of x.ticks) {
      make("line", { x1: x.place(value), x2: x.place(value), y1: bottom, y2: bottom + 4, class: "axis" }, svg);
      make("text", { x: x.place(value), y: bottom + 16, class: "tick", "text-anchor": "middle" }, svg, value);
    }
    make("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: height - 8, class: "label", "text-anchor": "middle" }, svg, shortTitle(space.dims[x.dim]));
    if (!y) return;
    for (const value of y.ticks) {
      make("line", { x1: LEFT - 4, x2: LEFT, y1: y.place(value), y2: y.place(value), class: "axis" }, svg);
      make("text", { x: LEFT - 8, y: y.place(value) + 4, class: "tick", "text-anchor": "end" }, svg, value);
    }
    const middle = (TOP + bottom) / 2;
    make("text", { x: 14, y: middle, class: "label", "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` }, svg, shortTitle(space.dims[y.dim]));
  }

  function points(svg, space, x, y, height, usual) {
    const group = make("g", { class: "calls" }, svg);
    const places = new Map(space.entries.map((entry, index) => [entry.number, index]));
    const ordered = [...space.calls].sort((a, b) => (a.entry === 0) - (b.entry === 0));  // misses on top
    for (const call of ordered) {
      const [u, v] = [call.at[x.dim], y ? call.at[y.dim] : 0];
      if (u === null || v === null) continue;
      const aside = call.at.some((value, dim) => dim !== x.dim && (!y || dim !== y.dim) && value !== null && value !== usual[dim]);
      const [cx, cy] = [x.place(u), y ? y.place(v) : (TOP + height - BOTTOM) / 2];
      const missed = call.entry === 0;
      const size = Math.min(7, 2.2 + Math.log2(call.count) * 0.55);
      const dot = missed
        ? make("path", { d: `M${cx - 4} ${cy - 4}l8 8m0 -8l-8 8`, class: "missed" }, group)
        : make("circle", { cx, cy, r: size, class: "served", fill: colour(places.get(call.entry)) }, group);
      if (aside) dot.setAttribute("opacity", "0.35");
      const told = call.at.map((value, dim) => value === null ? null : `${shortTitle(space.dims[dim])}: ${value}`).filter(Boolean).join(", ");
      make("title", {}, dot, `${call.count} ${call.count === 1 ? "call" : "calls"}, ${missed ? "missed" : "served by entry " + call.entry}: ${told}`);
    }
  }

  function option(select, value, text) {
    const made = document.createElement("option");
    made.value = value;
    made.textContent = text;
    select.appendChild(made);
  }

  function chooser(text, parent, options, value) {
    const label = document.createElement("label");
    label.textContent = text + " ";
    const select = document.createElement("select");
    options.forEach(([key, name]) => option(select, key, name));
    select.value = value;
    label.appendChild(select);
    parent.appendChild(label);
    return select;
  }

  function legend(list, space) {
    list.replaceChildren();
    space.entries.forEach((entry, index) => {
      const item = document.createElement("li");
      const mark = document.createElement("i");
      mark.style.background = colour(index);
      const link = document.createElement("a");
      link.href = "#" + entry.anchor;
      link.textContent = `entry ${entry.number}`;
      const text = document.createElement("span");
      const hits = `${entry.hits} ${entry.hits === 1 ? "hit" : "hits"}`;
      text.textContent = entry.text + (entry.unknown ? ` (${entry.unknown} of it not drawn)` : "");
      if (entry.kind !== "graph") text.textContent += `; ${entry.kind}`;
      const count = document.createElement("b");
      count.textContent = hits;
      item.append(mark, link, count, text);
      list.appendChild(item);
    });
  }

  const kept = new Map();  // of each function: the region that is shown and what was chosen, for when the contents are made anew

  function picture(figure) {
    const home = figure.closest("section").id;
    const { spaces } = JSON.parse(figure.querySelector("script").textContent);
    const [controls, box, readout, list] = ["controls", "drawing", "readout", "legend"].map(name => figure.querySelector("." + name));
    const before = kept.get(home);
    let space = spaces.find(each => each.name === before?.name) ?? spaces[0], drawn = null, choice = null;

    const show = () => {
      kept.set(home, { name: space.name, dims: space.dims.map(dim => dim.name).join(), choice });
      drawn = draw(box, space, choice);
      drawn.svg.addEventListener("mousemove", event => {
        const bounds = drawn.svg.getBoundingClientRect();
        const factor = WIDTH / bounds.width;
        const u = nearest(drawn.x, (event.clientX - bounds.left) * factor);
        const at = drawn.usual();
        at[drawn.x.dim] = u;
        let told = `${shortTitle(space.dims[drawn.x.dim])}: ${u}`;
        if (drawn.y) {
          const v = nearest(drawn.y, (event.clientY - bounds.top) * factor);
          at[drawn.y.dim] = v;
          told += `, ${shortTitle(space.dims[drawn.y.dim])}: ${v}`;
        }
        const serving = space.entries.filter((entry, index) => drawn.tests[index]([...at])).map(entry => entry.number);
        readout.textContent = `${told}: ${serving.length ? "entry " + serving.join(", ") : "no entry"}`;
      });
    };

    const begin = () => {
      controls.replaceChildren();
      const last = kept.get(home);
      const same = last?.name === space.name && last.dims === space.dims.map(dim => dim.name).join();
      choice = same ? last.choice : { dims: [space.first[0], space.first[1] ?? null], others: {} };
      if (spaces.length > 1) {
        const which = chooser("calls of", controls, spaces.map((each, index) => [index, each.name]), spaces.indexOf(space));
        which.addEventListener("change", () => { space = spaces[which.value]; begin(); });
      }
      const names = space.dims.map((dim, index) => [index, shortTitle(dim)]);
      if (names.length > 1) {
        const selects = [0, 1].map(side => chooser(side ? "up" : "across", controls, side ? [["", "nothing"], ...names] : names, choice.dims[side] ?? ""));
        selects.forEach((select, side) => select.addEventListener("change", () => {
          const chosen = select.value === "" ? null : Number(select.value);
          if (chosen !== null && chosen === choice.dims[1 - side]) {
            choice.dims[1 - side] = side ? space.dims.findIndex((_, i) => i !== chosen) : null;
            selects[1 - side].value = choice.dims[1 - side] ?? "";
          }
          choice.dims[side] = chosen;
          others();
          show();
        }));
      }
      const rest = document.createElement("span");
      controls.appendChild(rest);
      const others = () => {
        rest.replaceChildren();
        const hidden = space.dims.map((_, index) => index).filter(index => !choice.dims.includes(index) && space.dims[index].usual !== null);
        hidden.slice(0, 6).forEach(index => {
          const label = document.createElement("label");
          label.textContent = shortTitle(space.dims[index]) + " ";
          const input = document.createElement("input");
          input.type = "number";
          input.value = choice.others[index] ?? space.dims[index].usual;
          input.addEventListener("input", () => { choice.others[index] = input.value === "" ? undefined : Number(input.value); show(); });
          label.appendChild(input);
          rest.appendChild(label);
        });
      };
      others();
      legend(list, space);
      show();
    };
    begin();
  }

  function nearest(axis, at) {
    let [best, distance] = [axis.low, Infinity];
    const [low, high] = [axis.low, axis.high];
    let [from, to] = [low, high];
    const rising = axis.place(high) > axis.place(low);
    while (from <= to) {  // place is monotone
      const middle = Math.floor((from + to) / 2), place = axis.place(middle);
      if (Math.abs(place - at) < distance) [best, distance] = [middle, Math.abs(place - at)];
      if ((place < at) === rising) from = middle + 1; else to = middle - 1;
    }
    return best;
  }

  // A picture is drawn when it comes into view: a page may have hundreds.
  const seen = new IntersectionObserver(entries => entries.forEach(each => {
    if (each.isIntersecting) { seen.unobserve(each.target); picture(each.target); }
  }), { rootMargin: "600px" });
  const begin = () => {
    document.querySelectorAll("figure.shapes").forEach((figure, index) => index < 4 ? picture(figure) : seen.observe(figure));
    find();
  };
  window.addEventListener("beforeprint", () => document.querySelectorAll("figure.shapes").forEach(figure => {
    if (!figure.querySelector("svg")) picture(figure);
  }));

  // The list of functions: those whose name has what was typed; links open what they lead into.
  let wanted = "";
  const find = () => {
    const field = document.querySelector("#filter");
    if (field) field.value = wanted;
    document.querySelectorAll("nav li[data-name]").forEach(item => { item.hidden = !item.dataset.name.includes(wanted.toLowerCase()); });
  };
  document.addEventListener("input", event => {
    if (event.target.id === "filter") { wanted = event.target.value; find(); }
  });
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
    if (target) target.scrollIntoView();
  };
  window.addEventListener("hashchange", open);
  document.addEventListener("contents", begin);  // they were made anew
  begin();
  open();
})();
