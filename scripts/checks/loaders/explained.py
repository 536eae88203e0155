"""What fails to load by the loader's own fault, and how that is known."""

import re

CONVERSION = r"load: RuntimeError: We encountered some issues during automatic conversion.*"
#: What fails by the loader's own fault: the formats, what each failure is, what the checkpoint must have, and why. A row
#: that nothing fails by any longer is an error: it must go.
EXPECTED = [
    (
        "nvfp4", r"outputs differ.*|weights differ: ([^,]*experts[^,]*(, |$))+", "merged experts",
        "CompressedTensorsDequantize leaves out the global scale of experts that it merges",
    ),
    (
        "mxfp8|fp8 in blocks", CONVERSION, "merged experts",
        "CompressedTensorsDequantize multiplies experts that it merges by scales of the tensor or rows alone",
    ),
    (
        "int8 with activations", CONVERSION, "merged experts",
        "CompressedTensorsDequantize looks for packed integers in experts that it merges, and these are plain int8",
    ),
    (
        "deepseek", CONVERSION + "|(outputs|weights) differ.*", "partial blocks",
        "Fp8Dequantize divides the rows and columns by the number of scales: blocks at the edges must be whole",
    ),
    (
        "(?!deepseek|gpt-oss).*", r"load: AttributeError: '\w+' object has no attribute 'weight'", "",
        "the model's own initialization reads the weights of packed layers, which have none",
    ),
    (
        "fbgemm", r"(unexpected|weights differ): [^,]*experts[^,]*(, [^,]*experts[^,]*)*", "merged experts",
        "FbgemmFp8HfQuantizer has no place for the scales of experts, but for those of Llama 4",
    ),
    (
        "quark.*", r"unexpected: .*experts.*|weights differ: .*experts.*|load: RuntimeError: You set `ignore_mismatched_sizes`.*",
        "merged experts", "QuarkHfQuantizer has no place for the scales of experts that are merged",
    ),
    (
        "quark.*", r"unexpected: .*|weights differ: .*|load: RuntimeError: You set `ignore_mismatched_sizes`.*", "FalconLinear",
        "Quark replaces layers of the class Linear alone, not those of classes derived from it",
    ),
    (
        "quark.*", r"forward: RuntimeError: expected m1 and m2 to have the same dtype.*", "MambaMixer",
        "the model itself multiplies by the weight of a layer, which stays quantized",
    ),
    (
        "(?!deepseek|gpt-oss|fbgemm).*", r"(missing|unexpected): .*experts.*|(weights|outputs) differ.*", "Llama4TextExperts",
        "each expert must be a layer of its own in a quantized Llama 4, those that are kept too",
    ),
    (
        ".*", r"load: ValueError: source keys=.*", "",
        "the loader splits a matrix that is stored joined, and has no place for its scales",
    ),
    (
        ".*",
        "load: RuntimeError: You set `ignore_mismatched_sizes`.*|(missing|unexpected): .*|(weights|outputs) differ.*|"
        + CONVERSION,
        "split matrices", "the loader splits the scales of a matrix that is stored joined as it splits rows",
    ),
    (
        "deepseek", r"(missing|weights differ): ([^,]*\.scale(, |$))+|unexpected: ([^,]*\.weight(, |$))+", "tensors named scale",
        "the loader takes each tensor of the name `scale` for the scale of a weight",
    ),
    (
        "nvfp4|int4|int8", r"load: RuntimeError: You set `ignore_mismatched_sizes`.*", "joined matrices",
        "the loader joins the shapes and global scales of matrices that it joins, as it joins their rows",
    ),
    (
        "(?!deepseek|gpt-oss|fp8).*", CONVERSION, "merged plain matrices",
        "CompressedTensorsDequantize drops matrices that are not packed, where the loader merges several",
    ),
    (
        ".*", CONVERSION, "ErnieFuseAndSplitTextVisionExperts",
        "ErnieFuseAndSplitTextVisionExperts does not know the names of quantized matrices",
    ),
    (
        "(?!deepseek|gpt-oss).*", r"forward: RuntimeError: mixed dtype \(CPU\): .*", "",
        "OffloadCache keeps the type of a buffer that the model replaces by one of another type",
    ),
    (
        "(?!deepseek|gpt-oss).*", "forward: RuntimeError: expected m1 and m2 to have the same dtype.*", "scales in float",
        "the model keeps all parameters with `scale` in their names in float32, and so the weights that these scale",
    ),
]  # fmt: skip
#: What `facts` says of a checkpoint.
FACTS = {row[2] for row in EXPECTED} - {""}


def facts(model, quantized):
    """What may explain failures of a checkpoint, by the names of `FACTS`."""
    from safetensors import safe_open
    from transformers.conversion_mapping import WeightConverter, get_model_conversion_mapping

    shapes = {}
    for path in quantized.glob("*.safetensors"):
        with safe_open(path, "np") as file:
            shapes |= {key: file.get_slice(key).get_shape() for key in file.keys()}
    stored = set(shapes)
    scaled = {name.rsplit(".", 1)[0] for name in stored if "weight_scale" in name}
    # A matrix has rows or columns that are no whole blocks, and more than one block of them.
    blocks = {name: shape for name, shape in shapes.items() if name.endswith(".weight_scale_inv")}
    pairs = [pair for name, shape in blocks.items() for pair in zip(shape, shapes[name.removesuffix("_scale_inv")])]
    found = {"partial blocks"} if any(count > 1 and size % 128 for count, size in pairs) else set()
    if any(name.endswith(".scale") for name in stored):
        found.add("tensors named scale")
    for step in get_model_conversion_mapping(model):
        if not isinstance(step, WeightConverter):
            continue
        patterns = [re.compile(pattern.removesuffix("$")) for pattern in step.source_patterns]
        modules = {name.rsplit(".", 1)[0] for name in stored if any(pattern.search(name) for pattern in patterns)}
        operations = {type(operation).__name__ for operation in step.operations}
        found |= operations & FACTS if modules else set()
        if operations & {"Chunk", "Split"} and modules & scaled:
            found.add("split matrices")
        if "Concatenate" in operations and "MergeModulelist" not in operations and modules & scaled:
            found.add("joined matrices")
        if len(patterns) > 1 and modules - scaled:
            found.add("merged plain matrices")
    if any(name.endswith("_proj") and value.ndim == 3 for name, value in model.state_dict().items()):
        found.add("merged experts")
    found |= {type(module).__name__ for module in model.modules()} & FACTS
    if "scale" in (getattr(model, "_keep_in_fp32_modules_strict", None) or ()):
        found.add("scales in float")
    return found


def expected(name, failures):
    """The rows that explain the failures of a format; none where one of them has no explanation."""
    facts = FACTS & set(failures)
    rows = [row for row in EXPECTED if re.fullmatch(row[0], name) and (not row[2] or row[2] in facts)]
    found = []
    for failure in failures:
        if failure in FACTS:
            continue
        row = next((row for row in found + rows if re.fullmatch(row[1], failure, re.DOTALL)), None)
        if row is None:
            return []
        if row not in found:
            found.append(row)
    return found
