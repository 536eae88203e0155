// The tab Value: one value in every type, its bits to be flipped, and the rule by which it was rounded.
import { byId, code, make, pairs, shortened, table } from "./dom.js";

/** What the address keeps, under the names of its parts. */
const FIELDS = ["value", "from", "opset", "saturate", "round_mode", "scale", "zero_point", "block", "others"];
const BLOCKS = ["mxfp4", "mxfp6e2m3", "mxfp6e3m2", "mxfp8", "mxfp8e5m2", "mxint8", "nvfp4"];
const DEFAULTS = { value: "0.3", from: "float" };

const field = (name) => byId(`v-${name}`);

export function startValue(api, onChange) {
  const types = api.types();
  const numeric = types.filter((type) => ["float", "int", "uint", "bool"].includes(type.kind));
  field("from").append(
    make("option", { value: "", textContent: "decimal text, exactly" }),
    ...numeric.map(({ name }) => make("option", { value: name, textContent: name })),
  );
  field("block").append(...BLOCKS.map((name) => make("option", { value: name, textContent: name })));
  FIELDS.forEach((name) =>
    field(name).addEventListener("input", () => {
      // Bits are those of one type: with another type the value stays, not its code.
      if (name === "from") keepValue();
      show();
      onChange();
    }),
  );
  field("special").addEventListener("change", () => set(field("special").value));
  field("before").addEventListener("click", () => step(-1n));
  field("after").addEventListener("click", () => step(1n));
  let shown = null;

  const given = (name) => field(name).value.trim() || undefined;
  const options = () => ({
    from: given("from"),
    opset: given("opset") && Number(given("opset")),
    saturate: given("saturate") && given("saturate") === "true",
    roundMode: given("round_mode"),
    scale: given("scale"),
    zeroPoint: given("scale") && given("zero_point"),
  });
  const typeNamed = (name) => types.find((type) => type.name === name);

  function set(value) {
    field("value").value = value;
    show();
    onChange();
  }

  function keepValue() {
    if (/^0[xb]/i.test(given("value") ?? "") && shown) field("value").value = shown.value;
  }

  /** The code of the value that is shown. */
  const codeShown = () => (shown?.bits === undefined ? undefined : BigInt(shown.bits));

  function setCode(next) {
    const digits = Math.ceil(typeNamed(shown.type).bits / 4);
    set(`0x${next.toString(16).padStart(digits, "0")}`);
  }

  /** Goes to the next value; codes of floats grow with the magnitude. */
  function step(by) {
    const now = codeShown();
    if (now === undefined) return;
    const type = typeNamed(shown.type);
    const top = 1n << BigInt(type.bits - 1);
    const isFloat = type.kind === "float" && type.float.signed;
    if (isFloat && (now & ~top) === 0n) {
      // From zero, of either sign, the smallest value of the other sign.
      const negative = by < 0n;
      setCode(negative ? top | 1n : 1n);
      return;
    }
    const backwards = isFloat && (now & top) !== 0n;
    const last = (top << 1n) - 1n;
    setCode((now + (backwards ? -by : by)) & last);
  }

  function specials(type) {
    const { float, integer } = type ?? {};
    const limits = float
      ? [
          ["largest", float.largest.bits],
          ["smallest normal", float.smallest_normal.bits],
          ["smallest subnormal", float.smallest_subnormal?.bits],
          ["infinity", float.infinity],
          ["NaN", float.nan],
          ["-0", float.negative_zero],
        ]
      : integer
        ? [
            ["largest", integer.largest.bits],
            ["smallest", integer.smallest.bits],
          ]
        : [
            ["infinity", "inf"],
            ["NaN", "nan"],
            ["-0", "-0"],
          ];
    const all = [
      ...limits.filter(([, bits]) => bits),
      ["1", "1"],
      ["1/3", "0.333333333333333333333"],
      ["pi", "3.14159265358979323846"],
    ];
    field("special").replaceChildren(
      make("option", { value: "", textContent: "…", disabled: true, selected: true }),
      ...all.map(([name, bits]) => make("option", { value: bits, textContent: name })),
    );
  }

  function show() {
    specials(typeNamed(given("from")));
    field("before").disabled = field("after").disabled = !given("from");
    const rows = given("value") === undefined ? [] : api.explainAll(given("value"), options());
    const first = rows.find((row) => row.explained)?.explained;
    const wrong = given("value") === undefined ? "type a value" : first ? "" : rows[0].error;
    field("error").textContent = wrong;
    shown = first ? (first.value ?? first.source) : null;
    source(shown, first?.notes ?? []);
    field("types").replaceChildren(...rows.map(row));
    block();
  }

  /** The bits of the value, to be flipped, and what they say. */
  function source(side, notes) {
    const bits = side?.fields?.filter((one) => one.name !== "value") ?? [];
    let place = bits.reduce((sum, one) => sum + one.bits.length, 0);
    field("bits").replaceChildren(
      ...bits.map(({ name, bits: text }) =>
        make(
          "span",
          { className: `field ${fieldClass(name)}` },
          make(
            "span",
            {},
            ...[...text].map((bit) => {
              const weight = (place -= 1);
              const button = make("button", {
                type: "button",
                textContent: bit,
                ariaPressed: String(bit === "1"),
                ariaLabel: `${bit}, bit ${weight} of the ${name}`,
              });
              button.dataset.bit = weight;
              button.addEventListener("click", () => {
                setCode(codeShown() ^ (1n << BigInt(weight)));
                field("bits").querySelector(`[data-bit="${weight}"]`)?.focus();
              });
              return button;
            }),
          ),
          make("small", { textContent: name }),
        ),
      ),
    );
    field("facts").replaceChildren(
      ...pairs(
        side
          ? [
              ["exactly", side.value],
              side.bits !== undefined && ["code", code(side.bits)],
              ...(side.fields ?? [])
                .filter((one) => one.meaning || one.name === "value")
                .map(({ name, bits: text, meaning }) => [name, meaning || text]),
              ...notes.filter((note) => note.startsWith("`")).map((note) => ["note", note]),
            ]
          : [],
      ),
    );
  }

  /** A type's row, which opens. */
  function row({ to, explained, error }) {
    if (error)
      return make("p", { className: "none" }, make("b", { textContent: to }), make("span", { textContent: error }));
    const { result, rule } = explained;
    const head = make(
      "summary",
      {},
      make("b", { textContent: to }),
      make("span", {}, `${shortened(result.value)} `, ...(result.bits ? [code(result.bits)] : [])),
      make("span", { className: "off", textContent: offText(explained.error) }),
      make("span", { textContent: rule.id }),
    );
    const details = make("details", {}, head);
    details.addEventListener("toggle", () => {
      if (details.open && details.childElementCount === 1) details.append(...opened(explained));
    });
    return details;
  }

  onChange.restore = (state) => {
    FIELDS.forEach((name) => (field(name).value = state[name] ?? DEFAULTS[name] ?? ""));
    field("more").open = FIELDS.slice(2).some((name) => state[name]);
    show();
  };

  /** What the address keeps: what differs from the defaults. */
  onChange.state = () =>
    Object.fromEntries(
      FIELDS.map((name) => [name, field(name).value.trim()]).filter(
        ([name, value]) => value !== (DEFAULTS[name] ?? ""),
      ),
    );

  function block() {
    const format = given("block");
    const section = field("in-block");
    section.hidden = !format;
    if (!format || given("value") === undefined) return;
    const values = [given("value"), ...(given("others") ?? "").split(/[\s,]+/).filter(Boolean)];
    try {
      const found = api.explainBlock(values, format, { from: given("from") });
      section.replaceChildren(
        make("h2", { textContent: `The block in ${format}` }),
        make(
          "dl",
          {},
          ...pairs([
            ["greatest", found.greatest.value],
            found.global_scale && ["scale of the tensor", found.global_scale.value],
            ["scale", `${found.scale.value} `, code(found.scale.bits)],
            ["found by", found.formula],
          ]),
        ),
        table(
          ["value", "quotient", "element", "code", "back", "error"],
          found.elements.map((one) =>
            [
              one.source.value,
              one.quotient.rounded.value,
              one.result.value,
              one.result.bits,
              one.back.value,
              one.error?.absolute ?? "–",
            ].map((text) => shortened(text)),
          ),
        ),
      );
    } catch (error) {
      section.replaceChildren(make("p", { className: "poor", textContent: error.message }));
    }
  }
}

/** How far a result is from the value, in percent of that. */
function offText(error) {
  if (!error) return "";
  if (error.absolute === "0") return "exact";
  if (!error.relative) return `off by ${shortened(error.absolute, 10)}`;
  const percent = 100 * Number(error.relative);
  return `${percent < 0.001 ? percent.toExponential(1) : Number(percent.toPrecision(3))}% off`;
}

const fieldClass = (name) => (name.includes("bits") ? "significand" : name);

/** What a row shows when it is opened: the bits, the number line, the rule in words. */
function opened({ result, rule, below, above, error, operator, version, opset, source, quotient, notes, back }) {
  const bits = (result.fields ?? [])
    .filter((one) => one.name !== "value")
    .map(({ name, bits: text }) =>
      make(
        "span",
        { className: `field ${fieldClass(name)}` },
        make("span", {}, ...[...text].map((bit) => make("b", { textContent: bit }))),
        make("small", { textContent: name }),
      ),
    );
  const beside = (name, one) =>
    one && [
      name,
      `${one.value} `,
      ...(one.bits ? [code(one.bits)] : []),
      `, ${shortened(one.distance)} away${one.is_result ? ", the result" : ""}`,
    ];
  return [
    make("div", { className: "bits" }, ...bits),
    ...line(below, above),
    make(
      "dl",
      {},
      ...pairs([
        ["rule", rule.text],
        ["exactly", result.value],
        quotient?.exact && ["exact quotient", quotient.exact],
        beside("below", below),
        beside("above", above),
        error && [
          "error",
          error.absolute === "0"
            ? "none"
            : `${error.absolute}${error.relative ? ` (relative ${error.relative})` : ""}`,
        ],
        back && ["back", back.value],
        ["operator", `${operator}-${version}, opset ${opset}`],
        source.bits && ["from", `${source.value} `, code(source.bits)],
        ...notes.map((note) => ["note", note]),
      ]),
    ),
  ];
}

/** The number line between the neighbours, with the place of the value. */
function line(below, above) {
  if (!below || !above) return [];
  const [low, high] = [Number(below.distance), Number(above.distance)];
  if (!(low + high > 0)) return [];
  const place = (100 * low) / (low + high);
  const drawn = make(
    "div",
    {
      className: "line",
      role: "img",
      ariaLabel: `the value lies ${place.toFixed(1)}% of the way from the value below to the one above`,
    },
    make("i", { className: `end below${below.is_result ? " result" : ""}` }),
    make("i", { className: `end above${above.is_result ? " result" : ""}` }),
    make("i", { className: "value", style: `left: ${place.toFixed(2)}%` }),
  );
  return [
    drawn,
    make(
      "div",
      { className: "ends" },
      make("span", { textContent: shortened(below.value) }),
      make("span", { textContent: shortened(above.value) }),
    ),
  ];
}
