// The page of `onnx-cast report`: a table of tensors and types, sorted, filtered and shown a hundred rows at a time, and two
// plots of the tensor that is selected. Everything is drawn from the figures in the page; `page.rs` says how they stand.
"use strict";

const GRADES = ["exact", "fine", "care", "poor"];
const ROWS = 100;
/** Powers of two that are shown beside those of the values, so that a type's limits there are seen. */
const MARGIN = 6;
const STROKES = ["#0757ba", "#c2410c", "#0f766e", "#a21caf", "#ca8a04", "#be123c", "#4d7c0f", "#4338ca"];
const STROKES_DARK = ["#79b8ff", "#ffab70", "#5eead4", "#f0abfc", "#fde047", "#fda4af", "#bef264", "#a5b4fc"];

const byId = (id) => document.getElementById(id);
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};
const number = (value) => (value === null ? "–" : value === 0 ? "0" : value.toExponential(1));
const share = (part) => {
  const percent = 100 * part;
  return part === 0 ? "0" : percent < 0.01 ? "<0.01%" : percent < 10 ? percent.toFixed(2) + "%" : percent.toFixed(1) + "%";
};
const size = (bytes) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1000 && unit + 1 < units.length) {
    bytes /= 1024;
    unit += 1;
  }
  return (unit ? bytes.toFixed(1) : bytes) + " " + units[unit];
};

/** The figures by name. */
function read(data) {
  const tensors = data.tensors.map(
    ([name, type, shape, bytes, values, zeros, infinities, nan, smallest, largest, first, counts, candidates]) => ({
      name, type, shape, bytes, values, zeros, infinities, nan, smallest, largest, first, counts,
      candidates: candidates.map(
        ([to, grade, snr, overflowed, saturated, zero, subnormal, maxError, meanError, maxRelative, meanRelative, bytesAfter, errors, blocks]) => ({
          to, grade, snr, overflowed, saturated, zero, subnormal, maxError, meanError, maxRelative, meanRelative, bytesAfter, errors,
          blocks: blocks && readBlocks(blocks),
        }),
      ),
    }),
  );
  const rows = tensors.flatMap((tensor) => tensor.candidates.map((one) => ({ tensor, one })));
  return { ...data, tensors, rows };
}

const readBlocks = ([count, zeros, notFinite, exact, first, greatest, low, step, ratios]) =>
  ({ count, zeros, notFinite, exact, first, greatest, low, step, ratios });

/** Shares of the values; without values there are none. */
const part = (count, row) => (row.tensor.values ? count / row.tensor.values : 0);
const beyond = (row) => part(row.one.overflowed + row.one.saturated, row);

/** Columns: heading, what is sorted by, what is shown, and whether a phone leaves it out. */
const columns = (data) => [
  ["Tensor", (row) => row.tensor.name, (row) => row.tensor.name || "(no name)", false],
  ["Type", (row) => data.types[row.one.to].name, (row) => data.types[row.one.to].name, false],
  ["Verdict", (row) => row.one.grade, (row) => GRADES[row.one.grade], false],
  ["SNR dB", (row) => row.one.snr ?? Infinity, (row) => (row.one.snr === null ? "–" : row.one.snr.toFixed(1)), false],
  ["Beyond", beyond, (row) => share(beyond(row)), false],
  ["To zero", (row) => part(row.one.zero, row), (row) => share(part(row.one.zero, row)), false],
  ["Subnormal", (row) => part(row.one.subnormal, row), (row) => share(part(row.one.subnormal, row)), true],
  ["Mean error", (row) => row.one.meanRelative ?? 0, (row) => number(row.one.meanRelative), true],
  ["Largest error", (row) => row.one.maxRelative, (row) => number(row.one.maxRelative), true],
  ["Mean abs.", (row) => row.one.meanError ?? 0, (row) => number(row.one.meanError), true],
  ["Largest abs.", (row) => row.one.maxError, (row) => number(row.one.maxError), true],
  ["Values", (row) => row.tensor.values, (row) => row.tensor.values.toLocaleString("en"), true],
  ["Saved", (row) => row.tensor.bytes - row.one.bytesAfter, (row) => size(Math.max(0, row.tensor.bytes - row.one.bytesAfter)), true],
];

function start(found) {
  const data = read(found);
  const state = { sort: 2, down: true, page: 0, tensor: null, zone: 0, plots: [] };
  document.title = data.title + " – onnx-cast report";
  byId("title").textContent = data.title;
  cards(data);
  choices(byId("type"), data.types.map((type) => type.name));
  choices(byId("grade"), GRADES);

  const table = () => draw(data, state, choose);
  const choose = (row) => {
    state.tensor = row.tensor;
    state.zone = row.one.to;
    detail(data, state);
    table();
  };
  heads(data, state, table);
  for (const id of ["filter", "type", "grade"]) {
    byId(id).addEventListener("input", () => { state.page = 0; table(); });
  }
  byId("before").addEventListener("click", () => { state.page -= 1; table(); });
  byId("after").addEventListener("click", () => { state.page += 1; table(); });
  byId("log").addEventListener("change", () => detail(data, state));
  byId("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    detail(data, state);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => detail(data, state));
  let width = innerWidth;
  addEventListener("resize", () => {
    // A phone's bars come and go with scrolling, which changes the height alone.
    if (innerWidth !== width) detail(data, state);
    width = innerWidth;
  });
  table();
  const worst = selected(data, state)[0];
  if (worst) choose(worst);
  else byId("detail").hidden = true;
}

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

function cards(data) {
  for (const type of data.types) {
    const saved = type.before ? Math.round(100 * (1 - type.after / type.before)) : 0;
    byId("types").append(make("div", { className: "card" },
      make("h2", { textContent: type.name }),
      make("p", { className: "size", textContent: `${size(type.before)} → ${size(type.after)} (${saved}% saved)` }),
      ...type.verdict.map((line) => make("p", { textContent: line }))));
  }
}

function choices(select, names) {
  select.append(make("option", { value: "", textContent: "all" }));
  names.forEach((name, index) => select.append(make("option", { value: String(index), textContent: name })));
}

function heads(data, state, table) {
  columns(data).forEach(([name, , , more], index) => {
    const button = make("button", { type: "button", textContent: name });
    button.addEventListener("click", () => {
      state.down = state.sort === index ? !state.down : index > 2 && index !== 3;
      state.sort = index;
      state.page = 0;
      table();
    });
    byId("head").append(make("th", { scope: "col", className: more ? "more" : "" }, button));
  });
}

/** The rows that the filters leave, in order; among equals the worse verdict and the lower ratio come first. */
function selected(data, state) {
  const text = byId("filter").value.toLowerCase();
  const [type, grade] = [byId("type").value, byId("grade").value];
  const rows = data.rows.filter((row) =>
    (type === "" || row.one.to === Number(type)) && (grade === "" || row.one.grade === Number(grade)) &&
    row.tensor.name.toLowerCase().includes(text));
  const key = columns(data)[state.sort][1];
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const worse = (a, b) => order(b.one.grade, a.one.grade) || order(a.one.snr ?? Infinity, b.one.snr ?? Infinity);
  return rows.sort((a, b) => (state.down ? order(key(b), key(a)) : order(key(a), key(b))) || worse(a, b));
}

function draw(data, state, choose) {
  const all = selected(data, state);
  const pages = Math.max(1, Math.ceil(all.length / ROWS));
  const rows = all.slice(state.page * ROWS, (state.page + 1) * ROWS);
  const body = rows.map((row) => {
    const line = make("tr", { className: row.tensor === state.tensor && row.one.to === state.zone ? "chosen" : "" });
    columns(data).forEach(([, , show, more], index) => {
      const cell = make("td", { className: (more ? "more " : "") + (index === 2 ? GRADES[row.one.grade] : "") });
      if (index === 0) {
        const button = make("button", { type: "button", textContent: show(row) });
        button.addEventListener("click", () => {
          choose(row);
          byId("detail").scrollIntoView({ block: "nearest" });
          // The rows are new; whoever goes on with the keyboard is still here.
          byId("rows").querySelector("tr.chosen button")?.focus({ preventScroll: true });
        });
        cell.append(button);
      } else {
        cell.textContent = show(row);
      }
      line.append(cell);
    });
    return line;
  });
  byId("rows").replaceChildren(...body);
  [...byId("head").children].forEach((head, index) => {
    if (index === state.sort) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
  byId("count").textContent = `${all.length} of ${data.rows.length} rows`;
  byId("page").textContent = `page ${state.page + 1} of ${pages}`;
  byId("before").disabled = state.page === 0;
  byId("after").disabled = state.page + 1 >= pages;
}

/** The selected tensor: what it holds, and its plots. */
function detail(data, state) {
  const tensor = state.tensor;
  if (!tensor) return;
  byId("name").textContent = tensor.name || "(no name)";
  const facts = [
    `${tensor.type} ${tensor.shape || "scalar"}`, `${tensor.values.toLocaleString("en")} values`,
    `magnitudes from ${number(tensor.smallest)} to ${number(tensor.largest)}`, `${tensor.zeros.toLocaleString("en")} zeros`,
  ];
  if (tensor.infinities) facts.push(`${tensor.infinities} infinities`);
  if (tensor.nan) facts.push(`${tensor.nan} NaN`);
  byId("facts").textContent = facts.join(", ");
  byId("zones").replaceChildren(...tensor.candidates.map((one) => {
    const button = make("button", { type: "button", textContent: data.types[one.to].name });
    button.setAttribute("aria-pressed", String(one.to === state.zone));
    button.addEventListener("click", () => {
      state.zone = one.to;
      detail(data, state);
      byId("zones").querySelector('[aria-pressed="true"]').focus();
    });
    return button;
  }));
  state.plots.forEach((plot) => plot.destroy());
  const { name, limits } = data.types[state.zone];
  byId("key").hidden = !limits;
  byId("blocks").hidden = true;
  state.plots = tensor.counts.length ? [histogram(data, state), errors(data, state), ...ofBlocks(state)] : [];
  byId("histogram").setAttribute("aria-label",
    `Histogram of ${tensor.counts.length} powers of two from 2^${tensor.first}` + (limits ? `, against the range of ${name}` : ""));
  byId("errors").setAttribute("aria-label", "Mean relative error of the values of each power of two, a line for each type");
}

const colour = (name) => {
  // A probe has the colour that is in force, which the name's own text does not tell.
  const probe = make("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
};

/** The zones of a type on the axis of powers: [from, to, name]. With scales there are none: they move. */
function zones(limits) {
  if (!limits) return [];
  const [subnormal, normal, largest] = limits;
  const [low, high] = [Math.log2(normal), Math.log2(largest)];
  // What is above half the smallest rounds to it.
  const least = subnormal === null ? low : Math.log2(subnormal) - 1;
  return [[-Infinity, least, "zero"], [least, low, "subnormal"], [low, high, "normal"], [high, Infinity, "over"]];
}

/** The powers that are shown: those of the values, and limits of the type that are not far. */
function range(tensor, limits) {
  const [first, last] = [tensor.first, tensor.first + tensor.counts.length];
  const near = zones(limits).flatMap(([from, to]) => [from, to]).filter((power) => Number.isFinite(power));
  const low = near.filter((power) => power < first && power > first - MARGIN);
  const high = near.filter((power) => power > last && power < last + MARGIN);
  return [Math.floor(Math.min(first, ...low)) - 1, Math.ceil(Math.max(last, ...high)) + 1];
}

const superscript = (power) => "2" + String(power).replace(/[-0-9]/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit] ?? "⁻");

const counted = (count) => (count === null ? "" : count >= 1000 ? count.toPrecision(2).replace("e+", "e") : String(count));

function axes(label, below = superscript) {
  const [stroke, line] = [colour("faint"), colour("line")];
  const look = { stroke, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  return [
    { ...look, space: 46, incrs: [1, 2, 4, 5, 8, 10, 16, 20, 32, 64, 128, 256, 512], values: (_, places) => places.map(below) },
    { ...look, size: 58, values: label },
  ];
}

function plot(id, options, values) {
  const width = byId(id).clientWidth;
  return new uPlot({ width, height: innerWidth < 640 ? 190 : 230, cursor: { y: false, drag: { setScale: false } }, ...options }, values, byId(id));
}

/** Paints the zones of the type behind a plot. */
function paint(limits) {
  return (shown) => {
    const { ctx, bbox } = shown;
    for (const [from, to, name] of zones(limits)) {
      const [left, right] = [from, to].map((power) =>
        Math.min(Math.max(shown.valToPos(Math.min(Math.max(power, -5000), 5000), "x", true), bbox.left), bbox.left + bbox.width));
      ctx.fillStyle = colour(name);
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
    }
  };
}

function histogram(data, state) {
  const { tensor } = state;
  const { limits } = data.types[state.zone];
  const log = byId("log").checked;
  const powers = tensor.counts.map((_, index) => tensor.first + index + 0.5);
  const [low, high] = range(tensor, limits);
  const most = Math.max(...tensor.counts);
  const bars = colour("bars");
  return plot("histogram", {
    scales: {
      x: { time: false, range: [low, high] },
      y: log ? { distr: 3, range: [0.5, most * 2] } : { range: [0, most * 1.08] },
    },
    series: [
      { label: "from", value: (_, power) => (power === null ? "–" : superscript(power - 0.5)) },
      { label: "values", stroke: bars, fill: bars, paths: uPlot.paths.bars({ size: [0.86] }), points: { show: false },
        value: (_, count) => (count === null ? "–" : count.toLocaleString("en")) },
    ],
    axes: axes((_, counts) => counts.map(counted)),
    hooks: { drawClear: [paint(limits)] },
  }, [powers, tensor.counts.map((count) => (log && count === 0 ? null : count))]);
}

function errors(data, state) {
  const { tensor } = state;
  const { limits } = data.types[state.zone];
  const strokes = isDark() ? STROKES_DARK : STROKES;
  const powers = tensor.counts.map((_, index) => tensor.first + index + 0.5);
  const positive = tensor.candidates.flatMap((one) => one.errors).filter((error) => error > 0);
  const [least, most] = [Math.min(1e-2, ...positive), Math.max(1, ...positive)];
  const [low, high] = range(tensor, limits);
  return plot("errors", {
    scales: { x: { time: false, range: [low, high] }, y: { distr: 3, range: [10 ** Math.floor(Math.log10(least)), most * 1.6] } },
    series: [
      { label: "from", value: (_, power) => (power === null ? "–" : superscript(power - 0.5)) },
      ...tensor.candidates.map((one) => ({
        label: data.types[one.to].name, stroke: strokes[one.to % strokes.length], width: one.to === state.zone ? 3 : 1.5,
        points: { show: tensor.counts.length < 3 }, value: (_, error) => (error === null ? "–" : number(error)),
      })),
    ],
    axes: axes((_, errors) => errors.map((error) => (error === null ? "" : Math.abs(Math.log10(error) % 1) < 1e-9 ? number(error).replace("1.0e", "1e").replace("+", "") : ""))),
    hooks: { drawClear: [paint(limits)] },
  }, [powers, ...tensor.candidates.map((one) => one.errors.map((error, index) => (error > 0 && tensor.counts[index] ? error : null)))]);
}

/** The blocks that share a scale, in the type that is selected: their largest magnitudes, and the ratio of each. */
function ofBlocks(state) {
  const found = state.tensor.candidates.find((one) => one.to === state.zone)?.blocks;
  if (!found) return [];
  byId("blocks").hidden = false;
  const facts = [`${found.count.toLocaleString("en")} blocks`];
  if (found.exact) facts.push(`${found.exact.toLocaleString("en")} exact`);
  if (found.zeros) facts.push(`${found.zeros.toLocaleString("en")} of zeros`);
  if (found.notFinite) facts.push(`${found.notFinite.toLocaleString("en")} with NaN or infinity`);
  byId("blocks-facts").textContent = facts.join(", ");
  byId("greatest").setAttribute("aria-label", `Histogram of ${found.greatest.length} powers of two from 2^${found.first}`);
  byId("ratios").setAttribute("aria-label", `Histogram of ${found.ratios.length} steps of ${found.step} dB from ${found.low} dB`);
  return [
    found.greatest.length && bars("greatest", found.first, 1, found.greatest, superscript),
    found.ratios.length && bars("ratios", found.low, found.step, found.ratios, (ratio) => `${ratio} dB`),
  ].filter(Boolean);
}

/** Bars for counts of steps from a place on. */
function bars(id, first, step, counts, name) {
  const places = counts.map((_, index) => first + (index + 0.5) * step);
  const fill = colour("bars");
  return plot(id, {
    scales: { x: { time: false, range: [first - step, first + (counts.length + 1) * step] }, y: { range: [0, Math.max(...counts) * 1.08] } },
    series: [
      { label: "from", value: (_, place) => (place === null ? "–" : name(place - step / 2)) },
      { label: "blocks", stroke: fill, fill, paths: uPlot.paths.bars({ size: [0.86] }), points: { show: false },
        value: (_, count) => (count === null ? "–" : count.toLocaleString("en")) },
    ],
    axes: axes((_, shown) => shown.map(counted), name),
  }, [places, counts]);
}
