// The tab Format: every value of a small format on a number line, several formats one above the other.
import { byId, code, isDark, make, pairs, shortened, table } from "./dom.js";

/** Formats of more bits have more values than a line has pixels, and than a table has readers. */
const MOST_BITS = 8;
const FIRST = ["float4e2m1", "float6e2m3", "float8e4m3fn"];

export function startFormat(api, onChange) {
  const types = api
    .types()
    .filter((type) => type.float && type.bits <= MOST_BITS)
    .sort((a, b) => a.bits - b.bits);
  const ids = ["axis", "low", "high"];
  let chosen = FIRST;
  const cache = new Map();

  const boxes = types.map(({ name }) => {
    const box = make("input", { type: "checkbox", value: name });
    box.addEventListener("change", () => {
      chosen = [...boxes].filter((one) => one.checked).map((one) => one.value);
      show();
      onChange();
    });
    return box;
  });
  byId("f-names").append(...boxes.map((box) => make("label", {}, box, ` ${box.value}`)));
  ids.forEach((id) =>
    byId(`f-${id}`).addEventListener("input", () => {
      show();
      onChange();
    }),
  );

  /** Every code of a format with its value. */
  function valuesOf(type) {
    if (!cache.has(type.name)) {
      const codes = Uint8Array.from({ length: 1 << type.bits }, (_, index) => index);
      const bytes = type.bits < 8 ? api.pack(codes, type.name) : codes;
      cache.set(type.name, api.cast(bytes, "double", { from: type.name, length: codes.length }));
    }
    return cache.get(type.name);
  }

  /** The values that are shown: finite, and within the limits that are given. */
  const limit = (id) => (byId(`f-${id}`).value === "" ? undefined : Number(byId(`f-${id}`).value));

  function show() {
    boxes.forEach((box) => (box.checked = chosen.includes(box.value)));
    const shown = types.filter(({ name }) => chosen.includes(name));
    const log = byId("f-axis").value === "log";
    const [low, high] = [limit("low") ?? -Infinity, limit("high") ?? Infinity];
    const all = shown
      .flatMap((type) => [...valuesOf(type)])
      .filter((value) => Number.isFinite(value) && value >= low && value <= high);
    const axis = log ? logarithmic(all) : linear(all);
    byId("f-lines").replaceChildren(
      ...shown.map((type) => {
        const canvas = make("canvas", {
          ariaLabel: `The values of ${type.name} on a ${log ? "logarithmic" : "linear"} line`,
        });
        canvas.setAttribute("role", "img");
        const section = make(
          "section",
          { className: "format-line" },
          make("h2", {}, type.name, make("small", { textContent: about(type, valuesOf(type)) })),
          canvas,
          details(type, valuesOf(type)),
        );
        requestAnimationFrame(() =>
          draw(
            canvas,
            [...valuesOf(type)].filter((value) => value >= low && value <= high),
            axis,
          ),
        );
        return section;
      }),
    );
  }

  onChange.restore = (state) => {
    chosen = state.formats ? state.formats.split(",") : FIRST;
    ids.forEach((id) => (byId(`f-${id}`).value = state[id] ?? (id === "axis" ? "log" : "")));
    show();
  };
  onChange.state = () =>
    Object.fromEntries(
      [["formats", chosen.join(",")], ...ids.map((id) => [id, byId(`f-${id}`).value])].filter(
        ([name, value]) =>
          value !== "" && value !== (name === "axis" ? "log" : name === "formats" ? FIRST.join(",") : null),
      ),
    );
  onChange.redraw = show;
}

function about({ float }, values) {
  const finite = new Set([...values].filter(Number.isFinite));
  const sign = float.signed ? "sign, " : "";
  const bits = `${sign}${float.exponent_bits} exponent and ${float.significand_bits} significand bits, bias ${float.bias}`;
  return `${bits}; ${finite.size} values up to ${shortened(float.largest.value, 14)}`;
}

/** Limits and gaps, and each code with its value. */
function details(type, values) {
  const { float, bits } = type;
  const hex = (index) => `0x${index.toString(16).padStart(Math.ceil(bits / 4), "0")}`;
  const one = [...values].indexOf(1);
  const nans = [...values]
    .map((value, index) => [value, index])
    .filter(([value]) => Number.isNaN(value))
    .map(([, index]) => hex(index));
  const list = make(
    "dl",
    {},
    ...pairs([
      ["largest", `${float.largest.value} `, code(float.largest.bits)],
      ["smallest normal", shortened(float.smallest_normal.value, 20), " ", code(float.smallest_normal.bits)],
      [
        "smallest subnormal",
        ...(float.smallest_subnormal
          ? [shortened(float.smallest_subnormal.value, 20), " ", code(float.smallest_subnormal.bits)]
          : ["none"]),
      ],
      one >= 0 && Number.isFinite(values[one + 1]) && ["gap above 1", String(values[one + 1] - 1)],
      ["infinity", float.infinity ? code(float.infinity) : "none"],
      ["NaN", nans.length > 4 ? `${nans.length} codes, from ${nans[0]}` : nans.join(", ") || "none"],
    ]),
  );
  const every = make("details", {}, make("summary", {}, make("b", { textContent: `All ${values.length} codes` })));
  every.addEventListener("toggle", () => {
    if (every.open && every.childElementCount === 1) {
      every.append(
        table(
          ["code", "bits", "value"],
          [...values].map((value, index) => [
            hex(index),
            index.toString(2).padStart(bits, "0"),
            Object.is(value, -0) ? "-0" : String(value),
          ]),
        ),
      );
    }
  });
  const box = document.createDocumentFragment();
  box.append(list, every);
  return box;
}

const linear = (values) => {
  const [low, high] = [values.reduce((a, b) => Math.min(a, b), 0), values.reduce((a, b) => Math.max(a, b), 0)];
  const width = high - low || 1;
  return { place: (value) => (value - low) / width, ticks: ticksOf(low, high) };
};

function ticksOf(low, high) {
  const step = 10 ** Math.floor(Math.log10(high - low || 1)) / 2;
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high && ticks.length < 50; at += step) ticks.push(at);
  return ticks.length > 12 ? ticks.filter((_, index) => index % 4 === 0) : ticks;
}

/** Powers of two of either sign, with zero in the middle. */
const logarithmic = (values) => {
  const powers = values.filter((value) => value !== 0).map((value) => Math.log2(Math.abs(value)));
  const low = Math.floor(powers.reduce((a, b) => Math.min(a, b), Infinity)) - 1;
  const high = Math.ceil(powers.reduce((a, b) => Math.max(a, b), -Infinity));
  const span = high - low || 1;
  const isSigned = values.some((value) => value < 0);
  const of = (value) => (value === 0 ? 0 : (Math.log2(Math.abs(value)) - low) / span);
  const place = (value) => (isSigned ? 0.5 + (Math.sign(value) * of(value)) / 2 : of(value));
  const step = [1, 2, 4, 8, 16, 32, 64].find((one) => span / one <= (isSigned ? 5 : 10)) ?? 128;
  const ticks = [0];
  for (let power = Math.ceil((low + 1) / step) * step; power <= high; power += step)
    ticks.push(2 ** power, ...(isSigned ? [-(2 ** power)] : []));
  return { place, ticks };
};

function draw(canvas, values, axis) {
  const scale = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!width) return;
  Object.assign(canvas, { width: width * scale, height: height * scale });
  const context = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  const [margin, middle] = [26, 26];
  const at = (value) => margin + axis.place(value) * (width - 2 * margin);
  context.scale(scale, scale);
  context.strokeStyle = style.getPropertyValue("color");
  context.globalAlpha = 0.35;
  context.beginPath();
  context.moveTo(margin, middle);
  context.lineTo(width - margin, middle);
  context.stroke();
  context.globalAlpha = 0.8;
  context.strokeStyle = isDark() ? "#86bbd8" : "#33658a";
  context.beginPath();
  for (const value of values.filter(Number.isFinite)) {
    context.moveTo(at(value), middle - 15);
    context.lineTo(at(value), middle + 15);
  }
  context.stroke();
  context.globalAlpha = 1;
  context.fillStyle = style.getPropertyValue("color");
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "center";
  // Labels that would lie over others are left out; the first are the ones that matter.
  const taken = [];
  for (const tick of axis.ticks) {
    const place = at(tick);
    if (taken.some((other) => Math.abs(other - place) < 44)) continue;
    taken.push(place);
    context.fillText(tickText(tick), place, height - 8);
  }
}

const tickText = (value) => {
  const power = Math.log2(Math.abs(value));
  if (value !== 0 && Number.isInteger(power) && Math.abs(power) > 3) return `${value < 0 ? "-" : ""}2^${power}`;
  return String(Number(value.toPrecision(4)));
};
