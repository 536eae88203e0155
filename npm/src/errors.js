// What the package throws, and how it goes from a worker to its caller.

/** What the library refuses: a value, a type, an attribute or a file. */
export class CastError extends TypeError {
  name = "CastError";
}

/** The errors that a worker tells by their names; every other one is an `Error`. */
const CLASSES = { CastError, TypeError, RangeError };

/** An error as a message of a worker, which keeps no class of ours. */
export const told = ({ name, message, code }) => ({ name, message, code });

/** The error of such a message. `code` is the system's, as `ENOENT`. */
export function untold({ name, message, code }) {
  const error = new (CLASSES[name] ?? Error)(message);
  return code === undefined ? error : Object.assign(error, { code });
}

/** What an object is, for errors. */
export const kindOf = (value) => (value === null ? "null" : (value?.constructor?.name ?? typeof value));

/** Refuses options that a function does not have: one that is misspelt would change nothing, in silence. */
export function refuseOthers(of, options, known) {
  if (typeof options !== "object" || options === null) {
    throw new TypeError(`the options of ${of} are ${kindOf(options)}: want an object`);
  }
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined && !known.includes(name)) {
      throw new TypeError(`\`${name}\` is not an option of ${of}: want ${known.join(", ")}`);
    }
  }
}

const isText = (value) => typeof value === "string";

/** The kinds of options: what is wanted, for errors, and whether a value is that. */
export const KINDS = {
  text: ["a string", isText],
  texts: ["an array of strings", (value) => Array.isArray(value) && value.every(isText)],
  types: ["a string, or an array of strings", (value) => isText(value) || KINDS.texts[1](value)],
  flag: ["true or false", (value) => typeof value === "boolean"],
  integer: ["an integer", Number.isInteger],
  size: ["an integer, 0 or more", (value) => Number.isInteger(value) && value >= 0],
  call: ["a function", (value) => typeof value === "function"],
  signal: ["an AbortSignal", (value) => typeof value.throwIfAborted === "function"],
};

/** Refuses an argument of another kind. One that is null is not given. */
export function refuseOtherKind(what, value, kind) {
  if (value === undefined || value === null) return;
  const [wanted, isOne] = kind;
  if (isOne(value)) return;
  // A list is an Array: what is wrong is in it.
  const given = Array.isArray(value) && wanted.startsWith("an array") ? "an Array with other items" : kindOf(value);
  const shown = ["string", "number", "boolean"].includes(typeof value) ? ` (${value})` : "";
  throw new TypeError(`${what} is ${given}${shown}: want ${wanted}`);
}
