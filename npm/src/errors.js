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
