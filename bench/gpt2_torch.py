"""GPT-2 124M in PyTorch: the model, batch, optimizer and accumulation that scripts/gpu_check.sh gives to the trainer, as a
user of PyTorch would write them: autocast, scaled_dot_product_attention, fused AdamW, clipping, torch.compile. One line of
JSON: tokens per second, the median over the steps behind the warm-up.

    python3 bench/gpt2_torch.py --dtype bf16 --mode compiled
"""
import argparse
import json
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

CONTEXT, WIDTH, LAYERS, HEADS, VOCAB, PADDED = 1024, 768, 12, 12, 50257, 50304
SLOTS, SAMPLES, STEPS, WARM_UP = 4, 16, 12, 4


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for part in self.attention(self.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(b, t, c))
        return x + self.narrow(F.gelu(self.wide(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, layers, heads, width, context, padded):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(padded, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, padded, bias=False)
        self.head.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                residual = name.endswith(("projection.weight", "narrow.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if residual else 0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))


def step(model, optimizer, scaler, slots, device, dtype):
    for tokens in slots:
        with torch.autocast(device, dtype=dtype):
            loss = model(tokens[:, :-1], tokens[:, 1:].contiguous()) / len(slots)
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)


def optimizer_of(model, device):
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.999), fused=device == "cuda")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", choices=("f16", "bf16"), default="bf16")
    parser.add_argument("--mode", choices=("eager", "compiled"), default="eager")
    parser.add_argument("--tiny", action="store_true", help="a small model on whatever device there is: tests the script")
    options = parser.parse_args()
    device = "cpu" if options.tiny and not torch.cuda.is_available() else "cuda"
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[options.dtype]
    torch.manual_seed(1)
    shape = (2, 2, 64, 32, 256) if options.tiny else (LAYERS, HEADS, WIDTH, CONTEXT, PADDED)
    samples, vocab = (2, 250) if options.tiny else (SAMPLES, VOCAB)
    whole = GPT(*shape).to(device)
    model = torch.compile(whole) if options.mode == "compiled" else whole
    optimizer = optimizer_of(whole, device)
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)
    data = [torch.randint(vocab, (samples, shape[3] + 1), device=device) for _ in range(SLOTS)]
    times = []
    for _ in range(WARM_UP + STEPS):
        if device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        step(model, optimizer, scaler, data, device, dtype)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    seconds = statistics.median(times[WARM_UP:])
    # Rows of the table that are only padding are no parameters, as in the trainer.
    parameters = sum(p.numel() for p in whole.parameters()) - (shape[4] - vocab) * shape[2]
    print(json.dumps({"tokens_per_second": SLOTS * samples * shape[3] / seconds, "step_seconds": seconds,
                      "parameters": parameters, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
