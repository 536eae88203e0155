"""Loaders of other packages than compressed-tensors: how they load on a CPU, and the weights that they hold."""


def prepare():
    """Lets transformers load FBGEMM's layers where there is no GPU, which only their kernel needs."""
    from transformers.integrations import fbgemm_fp8
    from transformers.quantizers.quantizer_fbgemm_fp8 import FbgemmFp8HfQuantizer

    FbgemmFp8HfQuantizer.validate_environment = lambda *_, **__: None
    fbgemm_fp8.get_quantize_fp8_per_row = lambda: None


def of_kind(model, *kinds):
    """The modules of some classes, by name."""
    return {name: module for name, module in model.named_modules() if type(module).__name__ in kinds}


def runs(model):
    """Whether a model runs on a CPU."""
    return not of_kind(model, "FbgemmFp8Linear", "FbgemmFp8Llama4TextExperts")


def weights(model):
    """Weights of layers that packages do not make plain, each as its package multiplies by it."""
    import torch

    found = {}
    for name, module in of_kind(model, "FbgemmFp8Linear").items():
        found[f"{name}.weight"] = module.weight.float() * module.weight_scale.float()
    for name, module in of_kind(model, "FbgemmFp8Llama4TextExperts").items():
        # The shapes in which `forward` multiplies: a scale for each column.
        for matrix in ("gate_up_proj", "down_proj"):
            elements, scales = getattr(module, matrix), getattr(module, f"{matrix}_scale").float()
            found[f"{name}.{matrix}"] = elements.float() * scales.reshape(len(elements), 1, -1)
    with torch.no_grad():
        for name, module in of_kind(model, "QParamsLinear").items():
            found[f"{name}.weight"] = module._get_qweight(module.weight)
    return found
