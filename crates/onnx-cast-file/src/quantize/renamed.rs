//! What loaders call modules that have no tensor of their name: output layers that share the weight of an embedding, and
//! modules that they rename or split.

use super::linear::Linears;

/// Output layers that share the weight of an embedding and have no tensor: in which models, or in which classes of
/// models, they have other names than `lm_head` (transformers 5.24: `_tied_weights_keys`).
const TIED: &[(&[&str], &[&str], &[&str])] = &[
    (
        &[
            "bert",
            "bert-generation",
            "big_bird",
            "camembert",
            "data2vec-text",
            "electra",
            "ernie",
            "megatron-bert",
            "rembert",
            "roberta",
            "roberta-prelayernorm",
            "roc_bert",
            "roformer",
            "xlm-roberta",
            "xlm-roberta-xl",
            "xmod",
        ],
        &["ForMaskedLM", "ForPreTraining", "WithLMHeadModel"],
        &[
            "cls.predictions.decoder",
            "predictions.decoder",
            "lm_head.decoder",
            "generator_lm_head",
            "vocab_projector",
            "pred_layer.proj",
            "mlm_score.decoder",
        ],
    ),
    (&["modernbert", "modernbert-decoder"], &[], &["decoder"]),
    (&["whisper", "moonshine", "canary", "cohere_asr"], &[], &["proj_out"]),
    (&["biogpt", "trocr"], &[], &["output_projection"]),
    (&["fsmt"], &[], &["decoder.output_projection", "model.decoder.output_projection"]),
    (&["git"], &[], &["output"]),
    (&["gpt_neox_japanese"], &[], &["embed_out"]),
    (&["xlnet"], &[], &["lm_loss"]),
    (&["rwkv"], &[], &["head"]),
    (&["t5gemma", "t5gemma2"], &[], &["lm_head.out_proj"]),
    (&["kosmos-2"], &[], &["text_model.lm_head"]),
    (&["blip"], &[], &["text_decoder.cls.predictions.decoder"]),
    (&["speecht5"], &[], &["text_decoder_postnet.lm_head"]),
    (&["luke"], &[], &["entity_predictions.decoder"]),
    (
        &["encoder-decoder", "vision-encoder-decoder", "speech-encoder-decoder"],
        &[],
        &["decoder.lm_head", "decoder.cls.predictions.decoder", "decoder.lm_head.decoder", "decoder.output_projection"],
    ),
    (&["bark"], &[], &["fine_acoustics.lm_heads.#"]),
    (&["granite_speech5_ctc"], &[], &["ctc_head"]),
    (&["ultrabert"], &[], &["head.decoder"]),
    (&["pp_doclayout_v3"], &[], &["model.decoder.class_embed", "model.decoder.bbox_embed.layers.#"]),
];

const TTS: &[&str] = &["gradium_phonon_tts"];

/// The layers into which transformers 5.24 splits `in_proj_weight`, of PyTorch's attention, in some models.
const SPLIT: (&[&str], [&str; 3]) = (&["rf_detr", "tipsv2_text_model"], ["q_proj", "k_proj", "v_proj"]);

/// Modules that are kept and that transformers 5.24 renames (`conversion_mapping.py`): in which models, parts of their
/// names, and what these become; nothing where they go.
const RENAMED: &[(&[&str], &str, &str)] = &[
    (&["axk2"], "W_down", "mlp.fc1"),
    (&["axk2"], "W_up", "mlp.fc2"),
    (&["cohere_asr"], "pre_encode.out", "subsampling.linear"),
    (&["cohere_asr"], "encoder_decoder_proj", "decoder.proj"),
    (&["cohere_asr"], "log_softmax.mlp.layer0", "proj_out"),
    (&["deepseek_v4"], "attn.indexer.weights_proj", "self_attn.compressor.indexer.scorer.weights_proj"),
    (&["deepseek_v4"], "attn.wo_a", "self_attn.o_a_proj"),
    (&["ernie4_5_vl_moe"], "vision_model", "vision_tower"),
    (&["hy_v4_vl"], "vit", "vision_tower"),
    (&["hunyuan_vl"], "vit", "vision_tower"),
    (&["hyperclovax_vision_v2"], "vision_projector", "projector"),
    (&["inkling_mm_model"], "audio", "audio_tower"),
    (&["inkling_mm_model", "inkling2"], "visual", "vision_tower"),
    (&["lfm3_vl_vision"], "patchifier", "patch_embed"),
    (&["paddleocr_vl"], "mlp_AR", "projector"),
    (&["rf_detr"], "transformer.decoder", "model.decoder"),
    (&["rf_detr"], "transformer.enc_output", "model.enc_output"),
    (&["rf_detr"], "transformer.enc_out_class_embed", "model.enc_out_class_embed"),
    (&["rf_detr"], "transformer.enc_out_bbox_embed", "model.enc_out_bbox_embed"),
    (&["sam3_tracker", "sam3_tracker_video", "sam3_video"], "tracker_model", ""),
    (&["step3p7"], "vit_large_projector", "multi_modal_projector"),
    (&["dots3_note", "mistral_large4"], "vision_encoder", "vision_tower"),
    (&["dots3_note"], "audio_encoder", "audio_tower"),
    (&["dots3_note"], "audio_adapter", "audio_tower.audio_adapter"),
    (&["mistral_large4"], "vision_language_adapter.w_in", "multi_modal_projector.linear_1"),
    (&["mistral_large4"], "vision_language_adapter.w_out", "multi_modal_projector.linear_2"),
    (&["mistral_large4", "mistral_large4_text"], "attention", "self_attn"),
    (&["phimoe"], "block_sparse_moe.gate", "mlp.router"),
    (&["pp_doclayout_v4"], "decoder_roor_order_head", "decoder.successor_order_head.proj"),
    (&["pp_doclayout_v4"], "decoder_roor_global_pointer", "decoder.successor_order_head.global_pointer"),
    (&["pp_doclayout_v4"], "decoder_order_head", "decoder.relative_order_head.proj"),
    (&["pp_doclayout_v4"], "decoder_global_pointer", "decoder.relative_order_head.global_pointer"),
    (&["qianfan_ocr"], "vision_model", "vision_tower"),
    (&["qianfan_ocr", "nemotron_h_omni", "NemotronH_Omni_Reasoning_V3"], "mlp1.1", "multi_modal_projector.linear_1"),
    (&["qianfan_ocr", "nemotron_h_omni", "NemotronH_Omni_Reasoning_V3"], "mlp1.3", "multi_modal_projector.linear_2"),
    (&["nemotron_h_omni", "NemotronH_Omni_Reasoning_V3"], "sound_encoder.encoder", "audio_tower"),
    (&["nemotron_h_omni", "NemotronH_Omni_Reasoning_V3"], "sound_projection.linear1", "embed_audio.linear_1"),
    (&["nemotron_h_omni", "NemotronH_Omni_Reasoning_V3"], "sound_projection.linear2", "embed_audio.linear_2"),
    (&["tipsv2_text_model"], "transformer.resblocks", "encoder.layers"),
    (&["tipsv2_text_model"], "attn", "self_attn"),
    (&["ultravbert"], "head", "projection_head"),
    (&["unlimited_ocr"], "sam_model", "vision_tower.sam_encoder"),
    (&["unlimited_ocr"], "vision_model", "vision_tower.vision_encoder"),
    (&["unlimited_ocr"], "projector.layers", "multi_modal_projector"),
    (TTS, "flow_lm.condition_provider.conditioners.speaker_wavs.output_proj", "model.audio_prompt_proj"),
    (TTS, "flow_lm.condition_provider.conditioners.num_speakers.output_proj", "model.num_speakers_proj"),
    (TTS, "flow_lm.condition_provider.conditioners.duration_delta.output_proj", "model.duration_delta_proj"),
    (TTS, "flow_lm.input_linear", "model.audio_latent_proj"),
    (TTS, "flow_lm.flow_net.input_proj", "flow_head.input_proj"),
    (TTS, "flow_lm.flow_net.cond_embed", "flow_head.cond_proj"),
    (TTS, "flow_lm.flow_net.final_layer.adaLN_modulation.1", "flow_head.final_layer.adaln_proj"),
    (TTS, "flow_lm.flow_net.final_layer.linear", "flow_head.final_layer.proj"),
    (TTS, "flow_lm.out_eos", "eos_head"),
];

impl Linears<'_> {
    /// Output layers that may share the weight of an embedding; `#` is any number.
    pub(super) fn heads(&self) -> impl Iterator<Item = &'static str> {
        let is_meant = |(models, classes, _): &&(&[&str], &[&str], &[&str])| {
            self.model.is_any(models) || self.model.has_class(classes)
        };
        let others = TIED.iter().filter(is_meant).flat_map(|(.., names)| names.iter().copied());
        std::iter::once("lm_head").chain(others)
    }

    /// The name that loaders give a module, if it is another one.
    pub(super) fn renamed(&self, module: &str) -> Option<String> {
        let rows = RENAMED.iter().filter(|(models, ..)| self.model.is_any(models));
        let whole = format!(".{module}.");
        let renamed = rows.fold(whole.clone(), |name, (_, from, to)| {
            let to = if to.is_empty() { ".".to_owned() } else { format!(".{to}.") };
            name.replace(&format!(".{from}."), &to)
        });
        (renamed != whole).then(|| renamed.trim_matches('.').to_owned()).filter(|name| !name.is_empty())
    }

    /// The layers that loaders split a matrix into, as they name them.
    pub(super) fn split(&self, name: &str) -> impl Iterator<Item = String> {
        let (models, parts) = SPLIT;
        let module = name.strip_suffix(".in_proj_weight").filter(|_| self.model.is_any(models));
        let layers = module.into_iter().flat_map(move |module| parts.map(|part| format!("{module}.{part}")));
        layers.map(|layer| self.renamed(&layer).unwrap_or(layer))
    }
}
