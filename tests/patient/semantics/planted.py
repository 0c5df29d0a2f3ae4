"""A small decoder of one's own, sound as it stands, and the same with one fault planted in one layer."""

import math

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, WORDS = 32, 2, 61


def rotate(x, positions):
    half = x.shape[-1] // 2
    angles = positions[:, None].float() * torch.pow(10.0, -torch.arange(half, device=x.device).float() / half * 2)
    cos, sin = angles.cos(), angles.sin()
    one, two = x[..., :half], x[..., half:]
    return torch.cat([one * cos - two * sin, one * sin + two * cos], -1)


class Attention(nn.Module):
    def __init__(self, fault="", window=0):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fault, self.sliding_window = fault, window

    def mask(self, queries, keys, documents, device):
        offset = keys - queries
        i, j = torch.arange(queries, device=device)[:, None] + offset, torch.arange(keys, device=device)[None]
        seen = j <= i
        if self.fault == "off by one":
            seen = j <= i + 1
        if self.sliding_window and self.fault != "no window":
            reach = self.sliding_window + (1 if self.fault == "window" else 0)
            seen = seen & (i - j < reach)
        if documents is not None and self.fault != "documents":
            seen = seen & (documents[:, None, :] == documents[:, :, None])[0]
        if self.fault == "inverted":
            seen = ~seen | torch.eye(queries, keys, dtype=torch.bool, device=device)
        return seen

    def forward(self, x, cache=None, documents=None):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        past = 0 if cache is None else cache[0].shape[2]
        positions = torch.arange(length, device=x.device) + past
        if self.fault == "cache position":
            positions = torch.arange(length, device=x.device)
        q, k = rotate(q, positions), rotate(k, positions)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        if self.fault == "batch":
            v = v + v.mean(0, keepdim=True)
        seen = self.mask(length, k.shape[2], documents, x.device)
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.out(y.transpose(1, 2).reshape(batch, length, WIDTH)), (k, v)


class Block(nn.Module):
    def __init__(self, fault="", window=0):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention(fault, window)
        self.feed = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x, cache=None, documents=None):
        y, kept = self.attention(self.norm(x), cache, documents)
        x = x + y
        return x + self.feed(x), kept


class Decoder(nn.Module):
    def __init__(self, fault="", layer=1, window=0):
        super().__init__()
        torch.manual_seed(7)
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block(fault if n == layer else "", window) for n in range(3))
        self.head = nn.Linear(WIDTH, WORDS)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, 0, 1.5 / math.sqrt(WIDTH))

    def forward(self, tokens, cache=None, document_ids=None):
        x, kept = self.words(tokens), []
        for number, block in enumerate(self.blocks):
            x, one = block(x, None if cache is None else cache[number], document_ids)
            kept.append(one)
        return self.head(x), kept


def decoder(fault="", layer=1, window=0, batch=2):
    return Decoder(fault, layer, window), {"tokens": torch.randint(0, WORDS, (batch, 19))}


class Bidirectional(nn.Module):
    """Meant to look ahead: an encoder."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, WIDTH, dropout=0.0, batch_first=True)

    def forward(self, tokens):
        return self.layer(self.words(tokens))


def encoder():
    return Bidirectional(), {"tokens": torch.randint(0, WORDS, (2, 19))}
