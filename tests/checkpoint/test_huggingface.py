# RUN: timeout=300
"""Hugging Face's GPT-2 and ours are one model: their files load here, our checkpoints load there, and the logits agree.
Skipped where torch and transformers are not installed."""
import copy
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", OMP_NUM_THREADS="2",
                  HF_HUB_DISABLE_PROGRESS_BARS="1", TOKENIZERS_PARALLELISM="false")
try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as why:
    print(f"skipped: {why}")
    sys.exit(0)

PROBE = os.path.join("tests", "bin", "gpt_probe")
LAYERS, HEADS, WIDTH, CONTEXT, VOCAB, SAMPLES = 2, 3, 48, 20, 70, 3


def settings(tied):
    return [f"model.{key}={value}" for key, value in
            dict(layers=LAYERS, heads=HEADS, width=WIDTH, context=CONTEXT, vocab=VOCAB, tied=str(tied).lower(),
                 dropout=0.1).items()]


def their_model(tied):
    """Random weights wide enough that every parameter, biases and norms too, shows in the logits."""
    config = transformers.GPT2Config(n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH, n_positions=CONTEXT, vocab_size=VOCAB,
                                     tie_word_embeddings=tied, bos_token_id=None, eos_token_id=None)
    model = transformers.GPT2LMHeadModel(config).eval()
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def tokens():
    return torch.randint(0, VOCAB, (SAMPLES, CONTEXT), generator=torch.Generator().manual_seed(5))


def our_logits(case, weights, tied):
    """None when the probe refuses; its message is printed."""
    rows, out = case.path("tokens"), case.path("logits")
    with open(rows, "wb") as file:
        file.write(struct.pack(f"<{SAMPLES * CONTEXT}i", *tokens().flatten().tolist()))
    result = case.run(["logits", weights, rows, out] + settings(tied), program=PROBE)
    if result.returncode != 0:
        print(result.stdout + result.stderr)
        return None
    with open(out, "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.float32).reshape(SAMPLES, CONTEXT, VOCAB)


def compare(case, ours, model, what):
    with torch.no_grad():
        theirs = model(tokens()).logits
    if case.check(ours is not None, f"{what}: logits are written"):
        distance, size = (ours - theirs).abs().max().item(), theirs.abs().max().item()
        case.check(size > 0.5 and distance <= 1e-5 * max(size, 1.0), f"{what}: off by {distance} of {size}")


def their_file_loads_here(case, tied):
    folder = case.path(f"theirs-{tied}")
    model = their_model(tied)
    model.save_pretrained(folder)
    compare(case, our_logits(case, folder, tied), model, f"their folder, tied {tied}")

    # As the original GPT-2 files are: no prefix, and masks among the weights, of types that are not read.
    state = {name.removeprefix("transformer."): value
             for name, value in load_file(os.path.join(folder, "model.safetensors")).items()}
    for layer in range(LAYERS):
        state[f"h.{layer}.attn.bias"] = torch.ones(1, 1, CONTEXT, CONTEXT).tril().bool()
        state[f"h.{layer}.attn.masked_bias"] = torch.tensor(-10000, dtype=torch.int64)
    path = case.path("masks.safetensors")
    save_file(state, path)
    compare(case, our_logits(case, path, tied), model, f"without prefix, with masks, tied {tied}")

    for dtype in (torch.float16, torch.bfloat16):
        narrow = {name: value if value.dtype in (torch.bool, torch.int64) else value.to(dtype)
                  for name, value in state.items()}
        save_file(narrow, path)
        rounded = copy.deepcopy(model).to(dtype).float()
        compare(case, our_logits(case, path, tied), rounded, f"{dtype}, tied {tied}")


def our_checkpoint_loads_there(case, tied):
    folder = case.path(f"ours-{tied}")
    result = case.run(["write", folder] + settings(tied), program=PROBE)
    if not case.check(result.returncode == 0, f"writing: {result.stdout}{result.stderr}"):
        return
    model, info = transformers.GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        case.check(not info[key], f"tied {tied}: {key} {info[key]}")
    config = model.config
    case.check((config.tie_word_embeddings, config.activation_function, config.attn_pdrop) == (tied, "gelu_new", 0.1),
               f"tied {tied}: {config}")
    case.check((model.lm_head.weight is model.transformer.wte.weight) == tied, f"tied {tied}: the head")
    compare(case, our_logits(case, folder, tied), model.eval(), f"our checkpoint, tied {tied}")


def main():
    case = trainer.Case()
    for tied in (True, False):
        their_file_loads_here(case, tied)
        our_checkpoint_loads_there(case, tied)
    case.finish()


if __name__ == "__main__":
    main()
