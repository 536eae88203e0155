//! The names that llama.cpp has for the tensors of Hugging Face's checkpoints, and what its converter does to their
//! values: a row for each `model_type`.

/// What is known of a family of models.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) model_type: &'static str,
    pub(super) architecture: &'static str,
    /// Names within a layer, without `.weight` or `.bias`: those of Hugging Face, and those of llama.cpp.
    layer: &'static [(&'static str, &'static str)],
    /// Matrices of experts, each a tensor, behind a number: the names around it, and the name of all of them in one.
    experts: Option<(&'static str, &'static [(&'static str, &'static str)])>,
    /// Whether rows of queries and keys go by pairs, which are halves of a head in Hugging Face's.
    pub(super) pairs_rows: bool,
    /// Whether the weights of norms are one less than the factor.
    pub(super) adds_one: bool,
    /// Whether llama.cpp has no tensor for the output layer: it is that of the embeddings.
    pub(super) is_tied: bool,
}

const NORMS: [(&str, &str); 2] = [("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm")];
const ATTENTION: [(&str, &str); 4] = [
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
];
const HEAD_NORMS: [(&str, &str); 2] = [("self_attn.q_norm", "attn_q_norm"), ("self_attn.k_norm", "attn_k_norm")];
const MLP: [(&str, &str); 3] =
    [("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down")];
const FOUR_NORMS: [(&str, &str); 4] = [
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "post_attention_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
];
const ROUTER: [(&str, &str); 1] = [("mlp.gate", "ffn_gate_inp")];
const SHARED: [(&str, &str); 4] = [
    ("mlp.shared_expert.gate_proj", "ffn_gate_shexp"),
    ("mlp.shared_expert.up_proj", "ffn_up_shexp"),
    ("mlp.shared_expert.down_proj", "ffn_down_shexp"),
    ("mlp.shared_expert_gate", "ffn_gate_inp_shexp"),
];

/// Several lists as one.
const fn join<const N: usize>(lists: &[&[(&'static str, &'static str)]]) -> [(&'static str, &'static str); N] {
    let mut all = [("", ""); N];
    let (mut list, mut at) = (0, 0);
    while list < lists.len() {
        let mut index = 0;
        while index < lists[list].len() {
            all[at] = lists[list][index];
            (at, index) = (at + 1, index + 1);
        }
        list += 1;
    }
    assert!(at == N);
    all
}

const LLAMA: &[(&str, &str)] = &join::<9>(&[&NORMS, &ATTENTION, &MLP]);
const MIXTRAL: &[(&str, &str)] = &join::<7>(&[&NORMS, &ATTENTION, &[("block_sparse_moe.gate", "ffn_gate_inp")]]);
const QWEN3: &[(&str, &str)] = &join::<11>(&[LLAMA, &HEAD_NORMS]);
const QWEN2_MOE: &[(&str, &str)] = &join::<14>(&[LLAMA, &ROUTER, &SHARED]);
const QWEN3_MOE: &[(&str, &str)] = &join::<12>(&[QWEN3, &ROUTER]);
const GEMMA2: &[(&str, &str)] = &join::<11>(&[&FOUR_NORMS, &ATTENTION, &MLP]);
const GEMMA3: &[(&str, &str)] = &join::<13>(&[GEMMA2, &HEAD_NORMS]);

const MIXTRAL_EXPERTS: Option<(&str, &[(&str, &str)])> =
    Some(("block_sparse_moe.experts.", &[("w1", "ffn_gate_exps"), ("w2", "ffn_down_exps"), ("w3", "ffn_up_exps")]));
const QWEN_EXPERTS: Option<(&str, &[(&str, &str)])> = Some((
    "mlp.experts.",
    &[("gate_proj", "ffn_gate_exps"), ("down_proj", "ffn_down_exps"), ("up_proj", "ffn_up_exps")],
));

const BASE: Family = Family {
    model_type: "llama",
    architecture: "llama",
    layer: LLAMA,
    experts: None,
    pairs_rows: false,
    adds_one: false,
    is_tied: false,
};

pub(super) static FAMILIES: &[Family] = &[
    Family { pairs_rows: true, ..BASE },
    Family { model_type: "mistral", pairs_rows: true, ..BASE },
    Family { model_type: "mixtral", layer: MIXTRAL, experts: MIXTRAL_EXPERTS, pairs_rows: true, ..BASE },
    Family { model_type: "qwen2", architecture: "qwen2", ..BASE },
    Family { model_type: "qwen3", architecture: "qwen3", layer: QWEN3, ..BASE },
    Family { model_type: "qwen2_moe", architecture: "qwen2moe", layer: QWEN2_MOE, experts: QWEN_EXPERTS, ..BASE },
    Family { model_type: "qwen3_moe", architecture: "qwen3moe", layer: QWEN3_MOE, experts: QWEN_EXPERTS, ..BASE },
    Family { model_type: "gemma", architecture: "gemma", adds_one: true, is_tied: true, ..BASE },
    Family { model_type: "gemma2", architecture: "gemma2", layer: GEMMA2, adds_one: true, is_tied: true, ..BASE },
    Family { model_type: "gemma3_text", architecture: "gemma3", layer: GEMMA3, adds_one: true, ..BASE },
];

/// What a tensor is called in a `.gguf` file.
#[derive(Debug, PartialEq)]
pub(super) enum Called {
    /// A tensor of its own.
    Name(String),
    /// A matrix of all experts', with its place among them.
    Expert(String, usize),
    /// No tensor: llama.cpp computes it, or has it elsewhere.
    LeftOut(&'static str),
    /// No name is known.
    Unknown,
}

impl Family {
    pub(super) fn of(model_type: &str) -> Option<&'static Family> {
        FAMILIES.iter().find(|family| family.model_type == model_type)
    }

    /// The name for a tensor.
    pub(super) fn call(&self, name: &str) -> Called {
        match name {
            "model.embed_tokens.weight" => return Called::Name("token_embd.weight".to_owned()),
            "model.norm.weight" => return Called::Name("output_norm.weight".to_owned()),
            "lm_head.weight" if self.is_tied => return Called::LeftOut("llama.cpp takes the embeddings for it"),
            "lm_head.weight" => return Called::Name("output.weight".to_owned()),
            _ if name.ends_with(".rotary_emb.inv_freq") => return Called::LeftOut("llama.cpp computes it"),
            _ => {}
        }
        self.call_in_layer(name).unwrap_or(Called::Unknown)
    }

    fn call_in_layer(&self, name: &str) -> Option<Called> {
        let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
        let layer: u32 = layer.parse().ok()?;
        let (module, kind) = rest.rsplit_once('.').filter(|(_, kind)| ["weight", "bias"].contains(kind))?;
        if module == "self_attn.o_proj" && kind == "bias" && self.architecture != "llama" {
            return None;
        }
        if let Some((_, called)) = self.layer.iter().find(|(known, _)| *known == module) {
            return Some(Called::Name(format!("blk.{layer}.{called}.{kind}")));
        }
        let (before, names) = self.experts?;
        let (expert, part) = module.strip_prefix(before)?.split_once('.')?;
        let (_, called) = names.iter().find(|(known, _)| *known == part)?;
        Some(Called::Expert(format!("blk.{layer}.{called}.{kind}"), expert.parse().ok()?))
    }
}

/// Whether a name is one of llama.cpp's.
pub(super) fn is_called(name: &str) -> bool {
    name == "token_embd.weight" || name.starts_with("blk.")
}
