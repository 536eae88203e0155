// Jobs on files: each runs in a worker of its own, tells how far it is, and can be ended.

import { KINDS, kindOf, refuseOtherKind, refuseOthers, untold } from "./errors.js";

/** Options that every job has, with their kinds. */
const OF_JOBS = {
  path: KINDS.text,
  onProgress: KINDS.call,
  signal: KINDS.signal,
  include: KINDS.texts,
  exclude: KINDS.texts,
};
const OF_CASTS = { from: KINDS.types, opset: KINDS.integer, saturate: KINDS.flag, roundMode: KINDS.text };

/** Options of each job. */
const JOBS = {
  info: { ...OF_JOBS, from: KINDS.types, stats: KINDS.flag, types: KINDS.flag },
  report: {
    ...OF_JOBS,
    ...OF_CASTS,
    to: KINDS.texts,
    scaleRule: KINDS.text,
    minElements: KINDS.size,
    page: KINDS.flag,
    title: KINDS.text,
  },
  castFile: { ...OF_JOBS, ...OF_CASTS, output: KINDS.text, raiseOpset: KINDS.flag },
  quantizeFile: {
    ...OF_JOBS,
    output: KINDS.text,
    layout: KINDS.text,
    activations: KINDS.text,
    scaleRule: KINDS.text,
    form: KINDS.text,
    zeroPoints: KINDS.flag,
    reduceRange: KINDS.flag,
    raiseOpset: KINDS.flag,
  },
};

/** Refuses options that a job does not have, and those of another kind. */
function refuseOtherOptions(of, options) {
  refuseOthers(of, options, Object.keys(JOBS[of]));
  for (const [name, value] of Object.entries(options)) refuseOtherKind(`\`${name}\``, value, JOBS[of][name]);
}

/** Whether this is a blob; of another window's class, too. */
const isBlob = (one) => typeof one?.slice === "function" && typeof one.arrayBuffer === "function";

/** What the functions take, for errors. */
const WANTED = "want a File, a path of the system in node, or several files by their paths";

/** The files that a caller gives, as pairs of a path and a blob; in node also paths of the system. */
function listed(input) {
  if (typeof input === "string") return [[input.replaceAll("\\", "/").split("/").at(-1), { path: input }]];
  if (isBlob(input)) {
    // Only a File has a name.
    if (typeof input.name === "string") return [[input.name, input]];
    throw new TypeError('a Blob has no name to tell its format: want a File, or `{ "w.safetensors": blob }`');
  }
  const isList = typeof input !== "object" || Array.isArray(input) || ArrayBuffer.isView(input);
  if (input === null || isList || input instanceof ArrayBuffer) {
    throw new TypeError(`the files are ${kindOf(input)}: ${WANTED}`);
  }
  const pairs = input instanceof Map ? [...input] : Object.entries(input);
  if (pairs.length === 0) throw new TypeError(`there are no files: ${WANTED}`);
  return pairs.map(([name, blob]) => {
    if (typeof blob === "string") return [name, { path: blob }];
    if (isBlob(blob)) return [name, blob];
    throw new TypeError(`the file \`${name}\` is ${kindOf(blob)}: want a Blob, or a path of the system in node`);
  });
}

/** The path that a request names: the one file, or the folder that all files are in. */
function rootOf(files, path) {
  if (path !== undefined) return path;
  const models = files.filter(([name]) => /\.(onnx|index\.json)$/i.test(name));
  const [first] = models.length === 1 ? models : files;
  if (files.length === 1 || models.length === 1) return first[0];
  const isOfFolder = ([name]) => /\.(safetensors|index\.json)$/i.test(name);
  if (!files.some(isOfFolder)) {
    throw new TypeError(`${files.length} files, and none says which one to read: want \`path\`, the name of one`);
  }
  return first[0].split("/").slice(0, -1).join("/") || ".";
}

/** The module that has a job: models have one of their own, which reads and writes nothing else. */
function partOf(path, output = path) {
  return [path, output].every((one) => /\.onnx$/i.test(one)) ? "models" : "files";
}

/** Whether a cast of files is one of a model to a model. */
export const castsModel = (input, output) => partOf(rootOf(listed(input)), output) === "models";

/**
 * Makes the functions that do jobs. `load` gives a module, compiled, when one is needed: "files" or "models"; `start`
 * makes a worker for a message and returns `{ listen, stop }`; `template` gives the page of a report without its
 * figures.
 */
export function makeJobs(load, start, template) {
  const loaded = new Map();

  /** A module that was loaded once; one that could not be loaded is tried again by the next job. */
  async function moduleOf(part) {
    if (!loaded.has(part)) loaded.set(part, load(part));
    try {
      return await loaded.get(part);
    } catch (error) {
      loaded.delete(part);
      throw error;
    }
  }

  async function job(input, request, { path, onProgress = () => {}, signal } = {}) {
    let files = listed(input);
    const root = rootOf(files, path);
    // A folder without a name needs one.
    if (root === ".") files = files.map(([name, blob]) => [`./${name}`, blob]);
    signal?.throwIfAborted();
    const compiled = await moduleOf(partOf(root, request.output));
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      const worker = start({ compiled, files, request: { ...request, path: root } });
      let ended = false;
      const end = (run) => (given) => {
        ended = true;
        signal?.removeEventListener("abort", abort);
        worker.stop();
        run(given);
      };
      const abort = () => end(reject)(signal.reason);
      // An exception here would reach no caller: it would end the process.
      const tell = ({ done, total }) => {
        try {
          onProgress(done, total);
        } catch (error) {
          end(reject)(error);
        }
      };
      signal?.addEventListener("abort", abort);
      worker.listen((message) => {
        // A stopped worker may have sent some messages before.
        if (ended) return;
        if (message.error !== undefined) end(reject)(untold(message.error));
        else if (message.total !== undefined) tell(message);
        else end(resolve)({ answer: message.answer, outputs: new Map(message.outputs) });
      }, end(reject));
    });
  }

  const selected = ({ include, exclude, from, opset, saturate, roundMode }) => ({
    include,
    exclude,
    from,
    opset,
    saturate,
    round_mode: roundMode,
  });

  /** What a file holds. */
  async function info(input, options = {}) {
    refuseOtherOptions("info", options);
    const { stats, types } = options;
    return (await job(input, { job: "info", ...selected(options), stats, types }, options)).answer;
  }

  /** What casts to each of several types would lose. */
  async function report(input, options = {}) {
    refuseOtherOptions("report", options);
    const { page, title, scaleRule, minElements } = options;
    const to = options.to ?? ["float16", "bfloat16", "float8e4m3fn"];
    const chosen = { to, page, title, scale_rule: scaleRule, min_elements: minElements };
    const request = { job: "report", ...chosen, ...selected(options) };
    const { answer } = await job(input, request, options);
    if (!page) return answer.report;
    return { report: answer.report, page: (await template()).replace("{{data}}", () => answer.page_data) };
  }

  async function written(kind, input, to, given) {
    const of = kind === "cast_file" ? "castFile" : "quantizeFile";
    refuseOtherOptions(of, given);
    if (to === undefined) throw new TypeError(`${of} needs a second argument: the type or format to write`);
    refuseOtherKind(`what ${of} writes`, to, KINDS.text);
    const { output, layout, activations, scaleRule, form, zeroPoints, reduceRange, raiseOpset, ...options } = given;
    const name = output ?? listed(input)[0][0].split("/").at(-1);
    const request = {
      job: kind,
      to,
      output: name,
      layout,
      activations,
      scale_rule: scaleRule,
      form,
      zero_points: zeroPoints,
      reduce_range: reduceRange,
      raise_opset: raiseOpset,
      ...selected(options),
    };
    const { answer, outputs } = await job(input, request, options);
    return { summary: answer, files: outputs };
  }

  /** Casts the tensors of a file; the blobs of the result are by path. */
  const castFile = (input, to, options = {}) => written("cast_file", input, to, options);
  /** Quantizes the weights of a checkpoint or model. */
  const quantizeFile = (input, to, options = {}) => written("quantize_file", input, to, options);
  return { info, report, castFile, quantizeFile };
}

/** Starts workers of a browser. */
export const browserStart = (makeWorker) => (message) => {
  const worker = makeWorker();
  worker.postMessage(message);
  return {
    listen(hear, fail) {
      worker.onmessage = ({ data }) => hear(data);
      worker.onerror = (event) => fail(new Error(event.message ?? "the worker could not start"));
    },
    stop: () => worker.terminate(),
  };
};
