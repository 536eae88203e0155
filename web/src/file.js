// The tabs File and Cast: a dropped file or folder is listed, reported on, cast and saved. Jobs run in a worker.
import { byId, bytesText, make, shortened, table } from "./dom.js";
import { castsModel } from "./files.js";

/** Tensors that the list shows. */
const ROWS = 200;
const LAYOUTS = ["deepseek", "gpt-oss", "compressed-tensors", "modelopt", "fbgemm", "quark", "comfyui", "plain"];
const QUANTIZED = ["int8", "int4", "float8e4m3fn", "mxfp4", "mxfp8", "nvfp4"];

export function startFile(api, jobs, isDark) {
  let files = null;
  const types = api
    .types()
    .filter((type) => ["float", "int", "uint"].includes(type.kind))
    .map((type) => type.name);

  const drop = byId("drop");
  const over = (is) => (event) => {
    event.preventDefault();
    drop.classList.toggle("over", is);
  };
  addEventListener("dragover", over(true));
  addEventListener("dragleave", over(false));
  addEventListener("drop", async (event) => {
    over(false)(event);
    try {
      await choose(await dropped(event.dataTransfer));
    } catch (error) {
      byId("d-error").textContent = error.message;
    }
  });
  byId("d-files").addEventListener("change", ({ target }) =>
    choose([...target.files].map((file) => [file.name, file])),
  );
  byId("d-folder").addEventListener("change", ({ target }) =>
    choose([...target.files].map((file) => [file.webkitRelativePath, file])),
  );

  async function choose(found) {
    if (!found.length) return;
    files = new Map(found);
    const total = found.reduce((sum, [, file]) => sum + file.size, 0);
    const [first] = found[0];
    const name =
      found.length === 1 ? first : `${first.includes("/") ? first.split("/")[0] : `${found.length} files`}`;
    byId("d-name").textContent = `${name}, ${bytesText(total)}`;
    byId("c-name").textContent = `${name}, ${bytesText(total)}`;
    byId("d-shown").hidden = byId("d-tensors").hidden = byId("d-work").hidden = true;
    byId("c-run").disabled = true;
    offer();
    const held = await work("d", (options) => jobs.info(files, options));
    if (!held) return;
    list(held);
    byId("d-work").hidden = byId("c-run").disabled = false;
    byId("c-run").disabled = false;
  }

  function list(held) {
    const rows = held.tensors ?? [];
    const quantized = held.quantized
      ? `, ${held.quantized.layout ?? ""} ${held.quantized.weights.length} quantized weights`
      : "";
    const more = rows.length > ROWS ? `; the first ${ROWS}` : "";
    byId("d-tensors").replaceChildren(
      make("h2", {
        textContent: `${rows.length.toLocaleString("en")} tensors${quantized}${more}`,
      }),
      table(
        ["Tensor", "Type", "Shape", "Bytes"],
        rows
          .slice(0, ROWS)
          .map(({ name, type, shape, bytes }) => [
            name || "(no name)",
            type,
            shape.join("x") || "scalar",
            bytesText(bytes ?? 0),
          ]),
      ),
    );
    byId("d-tensors").hidden = false;
  }

  /** Runs a job with the progress and the button of a tab; gives nothing where it fails or is ended. */
  async function work(tab, run) {
    const part = (name) => byId(`${tab}-${name}`);
    const ended = new AbortController();
    part("error").textContent = "";
    part("running").hidden = false;
    part("progress").removeAttribute("value");
    part("done").textContent = "";
    part("cancel").onclick = () => ended.abort(new Error("cancelled"));
    const onProgress = (done, total) => {
      part("progress").value = total ? done / total : 1;
      part("done").textContent = `${bytesText(done)} of ${bytesText(total)}`;
    };
    try {
      return await run({ onProgress, signal: ended.signal });
    } catch (error) {
      part("error").textContent = error.message;
      return null;
    } finally {
      part("running").hidden = true;
    }
  }

  byId("d-report").addEventListener("click", async () => {
    const to = byId("d-to")
      .value.split(/[\s,]+/)
      .filter(Boolean);
    byId("d-shown").hidden = true;
    const title = byId("d-name").textContent;
    const found = await work("d", (options) => jobs.report(files, { ...options, to, page: true, title }));
    if (!found) return;
    const frame = byId("d-shown");
    // The report's own page, in the colours of this one.
    frame.srcdoc = found.page.replace("<html", `<html data-theme="${isDark() ? "dark" : "light"}"`);
    frame.hidden = false;
    frame.onload = () => {
      const inside = frame.contentDocument;
      inside.getElementById("theme").hidden = true;
      const fit = () => (frame.style.height = `${inside.body.scrollHeight + 4}px`);
      new frame.contentWindow.ResizeObserver(fit).observe(inside.body);
      fit();
    };
  });

  // The tab Cast.
  byId("c-layout").append(...LAYOUTS.map((name) => make("option", { value: name, textContent: name })));
  byId("c-job").addEventListener("input", offer);
  byId("c-to").addEventListener("input", name);
  function offer() {
    const isCast = byId("c-job").value === "cast";
    byId("c-to").replaceChildren(
      ...(isCast ? types : QUANTIZED).map((text) => make("option", { value: text, textContent: text })),
    );
    byId("c-to").value = isCast ? "float16" : "int8";
    byId("c-layout").disabled = isCast;
    name();
  }

  /** The name of the output: that of the input, with the type in it. */
  function name() {
    const [first] = files ? files.keys() : ["model.safetensors"];
    const given = first.includes("/") && files.size > 1 ? first.split("/")[0] : first.split("/").at(-1);
    const dot = given.lastIndexOf(".");
    byId("c-output").value =
      dot > 0 ? `${given.slice(0, dot)}.${byId("c-to").value}${given.slice(dot)}` : `${given}-${byId("c-to").value}`;
  }
  offer();

  byId("c-run").addEventListener("click", async () => {
    const include = byId("c-include")
      .value.split(/[\s,]+/)
      .filter(Boolean);
    const output = byId("c-output").value;
    const given = {
      include,
      output,
      layout: byId("c-layout").value || undefined,
      raiseOpset: castsModel(files, output),
    };
    byId("c-results").replaceChildren();
    const [job, to] = [byId("c-job").value === "cast" ? jobs.castFile : jobs.quantizeFile, byId("c-to").value];
    const done = await work("c", (options) => job(files, to, { ...options, ...given }));
    if (done) results(done);
  });

  function results({ summary, files: outputs }) {
    const cast = summary.tensors.filter((row) => row.cast);
    const links = [...outputs].map(([path, blob]) => {
      const file = path.split("/").at(-1);
      const button = make("button", { type: "button", textContent: `Save ${file} (${bytesText(blob.size)})` });
      button.addEventListener("click", () =>
        save(file, blob).catch((error) => (byId("c-error").textContent = error.message)),
      );
      return make("p", {}, button);
    });
    const sizes = `${bytesText(summary.bytes_before)} → ${bytesText(summary.bytes_after)}`;
    byId("c-results").replaceChildren(
      make("h2", {
        textContent: `${cast.length} of ${summary.tensors.length} tensors: ${sizes}`,
      }),
      ...(summary.warning ? [make("p", { textContent: `Warning: ${summary.warning}` })] : []),
      ...links,
      table(
        ["Tensor", "From", "To"],
        cast.slice(0, ROWS).map(({ name: tensor, from, to }) => [shortened(tensor || "(no name)", 80), from, to]),
      ),
    );
  }
}

/** Saves a blob: streamed to a file that the person chooses where the browser can, else as a download. */
async function save(name, blob) {
  if (globalThis.showSaveFilePicker && location.protocol !== "file:") {
    let handle;
    try {
      handle = await showSaveFilePicker({ suggestedName: name });
    } catch (error) {
      if (error.name === "AbortError") return;
      throw error;
    }
    await blob.stream().pipeTo(await handle.createWritable());
    return;
  }
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/**
 * The files of a drop, with those in folders. What is dropped has to be asked for before anything is waited for. In a
 * page from the disk Chromium reads no entries, but handles, which other browsers lack.
 */
async function dropped(transfer) {
  const items = [...transfer.items]
    .filter(({ kind }) => kind === "file")
    .map((item) => ({
      file: item.getAsFile(),
      entry: item.webkitGetAsEntry?.(),
      handle: item.getAsFileSystemHandle?.(),
    }));
  const found = [];
  for (const { file, entry, handle } of items) {
    if (!entry?.isDirectory) found.push([file.name, file]);
    else if (handle) await visitHandle(await handle, entry.name, found);
    else await visitEntry(entry, entry.name, found);
  }
  return found;
}

async function visitHandle(handle, path, found) {
  if (handle.kind === "file") found.push([path, await handle.getFile()]);
  else for await (const [name, one] of handle.entries()) await visitHandle(one, `${path}/${name}`, found);
}

async function visitEntry(entry, path, found) {
  if (entry.isFile) {
    found.push([path, await new Promise((resolve, reject) => entry.file(resolve, reject))]);
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return;
    for (const one of some) await visitEntry(one, `${path}/${one.name}`, found);
  }
}
