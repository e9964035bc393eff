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


def model_keys(tied):
    return {f"model.{key}": value for key, value in
            dict(kind="gpt", layers=LAYERS, heads=HEADS, width=WIDTH, context=CONTEXT, vocab=VOCAB,
                 tied=str(tied).lower(), dropout=0.1).items()}


def train(case, tied, name, **more):
    """Three steps; the folder of the last checkpoint, or None."""
    config = dict(model_keys(tied), **{"data.kind": "synthetic", "data.samples": 64, "train.steps": 3,
                                       "train.global_batch": 8, "train.micro_batch": 2, "device.threads": 1,
                                       "log.level": "warn", "log.dir": case.path(name)}, **more)
    trainer.write_config(case.path(f"{name}.ini"), config)
    result = case.run([case.path(f"{name}.ini")])
    if not case.check(result.returncode == 0, f"{name}: exit {result.returncode}\n{result.stderr}"):
        return None
    return case.path(name, "checkpoints", "step-00000003")


def their_model(tied):
    """Random weights wide enough that every parameter, biases and norms too, shows in the logits."""
    config = transformers.GPT2Config(n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH, n_positions=CONTEXT, vocab_size=VOCAB,
                                     tie_word_embeddings=tied, bos_token_id=None, eos_token_id=None)
    torch.manual_seed(3)
    model = transformers.GPT2LMHeadModel(config).eval()
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
    settings = [f"{key}={value}" for key, value in model_keys(tied).items()]
    result = case.run([weights, rows, out] + settings, program=PROBE)
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


def load(case, folder, tied, what):
    model, info = transformers.GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        case.check(not info[key], f"{what}: {key} {info[key]}")
    case.check((model.lm_head.weight is model.transformer.wte.weight) == tied, f"{what}: the head")
    return model.eval()


def our_checkpoint_loads_there(case, tied):
    """Trained for three steps, from initial weights of ours."""
    what = f"our checkpoint, tied {tied}"
    folder = train(case, tied, f"ours-{tied}", **{"optimizer.lr": 0.05})
    if folder is None:
        return
    model = load(case, folder, tied, what)
    config = model.config
    case.check((config.tie_word_embeddings, config.activation_function, config.attn_pdrop) == (tied, "gelu_new", 0.1),
               f"{what}: {config}")
    compare(case, our_logits(case, folder, tied), model, what)


def their_weights_go_round(case, tied):
    """Into the trainer by model.init_from, through steps that change nothing, into a checkpoint, back: equal bits."""
    name = f"round-{tied}"
    folder = train(case, tied, name, **{"model.init_from": case.path(f"theirs-{tied}"), "optimizer.lr": 1e-30})
    if folder is None:
        return
    theirs, back = their_model(tied).state_dict(), load(case, folder, tied, name).state_dict()
    for key, value in theirs.items():
        case.check(torch.equal(value, back[key]), f"{name}: {key}")


def main():
    case = trainer.Case()
    for tied in (True, False):
        their_file_loads_here(case, tied)
        our_checkpoint_loads_there(case, tied)
        their_weights_go_round(case, tied)
    case.finish()


if __name__ == "__main__":
    main()
