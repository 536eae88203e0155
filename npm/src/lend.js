// The module's functions for files: inputs are read range by range, outputs collected in pieces and patched together.

/** Bytes that are read at once where few are asked for: headers are read in small pieces. */
const AHEAD = 1 << 18;
/** Bytes of an output that this thread keeps in memory; larger pieces become blobs, which browsers put on the disk. */
const PIECE = 8 << 20;

/**
 * A source that reads a little ahead. `read(at, length)` gives a Uint8Array of that many bytes, and `release`, if there
 * is one, gets it back once it is copied.
 */
class Input {
  #read;
  #release;
  #ahead = new Uint8Array();
  #at = 0;

  constructor({ size, read, release = () => {} }) {
    this.size = size;
    this.#read = read;
    this.#release = release;
  }

  copy(at, target) {
    const length = Math.max(0, Math.min(target.length, this.size - at));
    if (length === 0) return 0;
    const start = at - this.#at;
    if (start < 0 || start + length > this.#ahead.length) {
      if (length >= AHEAD) {
        const bytes = this.#read(at, length);
        target.set(bytes);
        this.#release(bytes);
        return length;
      }
      this.#release(this.#ahead);
      this.#ahead = this.#read(at, Math.min(AHEAD, this.size - at));
      this.#at = at;
    }
    const from = at - this.#at;
    target.set(this.#ahead.subarray(from, from + length));
    return length;
  }
}

/** An output: pieces at places. A later piece may lie over an earlier one, as where a length is filled in. */
export class Output {
  #pieces = [];
  #held = [];
  #at = 0;
  #length = 0;

  write(at, bytes) {
    if (at !== this.#at + this.#length || this.#length >= PIECE) {
      this.#flush();
      this.#at = at;
    }
    this.#held.push(bytes.slice());
    this.#length += bytes.length;
  }

  #flush() {
    if (this.#length) this.#pieces.push({ at: this.#at, end: this.#at + this.#length, blob: new Blob(this.#held) });
    this.#held = [];
    this.#length = 0;
  }

  /** All bytes; where none were written there are zeros. */
  blob() {
    this.#flush();
    let parts = [];
    for (const piece of this.#pieces) {
      const last = parts.at(-1);
      if (last && piece.at < last.end) parts = parts.flatMap((part) => outside(part, piece));
      parts.push(piece);
      if (last && piece.at < last.end) parts.sort((a, b) => a.at - b.at);
    }
    const blobs = [];
    let at = 0;
    for (const part of parts) {
      if (part.at > at) blobs.push(new Uint8Array(part.at - at));
      blobs.push(part.blob);
      at = part.end;
    }
    return new Blob(blobs);
  }
}

/** What a piece leaves of a part that it lies over. */
function outside(part, piece) {
  if (piece.at >= part.end || piece.end <= part.at) return [part];
  const cut = (at, end) => ({ at, end, blob: part.blob.slice(at - part.at, end - part.at) });
  return [
    ...(piece.at > part.at ? [cut(part.at, piece.at)] : []),
    ...(piece.end < part.end ? [cut(piece.end, part.end)] : []),
  ];
}

/**
 * The host of a module: lends `files`, a map from paths to sources as an `Input` takes them, and takes outputs, each of
 * which is in `outputs` when it is complete. `tell(done, total)` hears of the progress.
 */
export class Host {
  outputs = new Map();
  #files = [];
  #numbers = new Map();
  #folders = new Map();
  #open = new Map();
  #listed = new Uint8Array();
  #tell;

  constructor(files, tell = () => {}) {
    this.#tell = tell;
    for (const [path, source] of files) {
      this.#numbers.set(path, this.#files.length);
      this.#files.push(new Input(source));
      const parts = path.split("/");
      parts.slice(0, -1).forEach((_, depth) => {
        const folder = parts.slice(0, depth + 1).join("/");
        if (!this.#folders.has(folder)) this.#folders.set(folder, new Set());
        this.#folders.get(folder).add(parts[depth + 1]);
      });
    }
  }

  /** What the module imports; `memory` gives its memory as bytes. */
  imports(memory) {
    const text = (at, length) => new TextDecoder().decode(memory().subarray(at, at + length));
    // An exception would leave the module in the middle of its work.
    const guarded =
      (run) =>
      (...given) => {
        try {
          return run(...given);
        } catch (error) {
          this.error = error;
          return -1;
        }
      };
    return {
      open: (at, length) => this.#numbers.get(text(at, length)) ?? -1,
      size: (file) => this.#files[file]?.size ?? 0,
      read: guarded((file, place, at, length) => this.#files[file].copy(place, memory().subarray(at, at + length))),
      list: (at, length) => {
        const names = this.#folders.get(text(at, length).replace(/\/$/, ""));
        this.#listed = new TextEncoder().encode([...(names ?? [])].join("\n"));
        return names ? this.#listed.length : -1;
      },
      listed: (at) => memory().set(this.#listed, at),
      create: (at, length) => {
        const file = this.#files.length + this.#open.size;
        this.#open.set(file, { path: text(at, length), output: new Output() });
        return file;
      },
      write: guarded((file, place, at, length) => {
        this.#open.get(file).output.write(place, memory().subarray(at, at + length));
        return 0;
      }),
      close: guarded((file, keep) => {
        const { path, output } = this.#open.get(file);
        if (keep) this.outputs.set(path, output.blob());
        return 0;
      }),
      tell: (done, total) => {
        this.#tell(done, total);
        return 0;
      },
    };
  }
}
