"""The formulas of the pages as text."""

import re

import pytest

from grader.course import catalog, page
from grader.course.formulas import as_text

pytestmark = pytest.mark.fast

PAGES = {
    "02": "attention(q, k, v) = softmax(q kᵀ / √K + mask) v",
    "04": "y = scale · (x - mean(x)) / √(var(x) + ε) + bias",
    "07": "loss = -(Σₜ₌₀ᵀ⁻² [idₜ₊₁ ≠ pad] ln softmax(logitsₜ)[idₜ₊₁])\n       / (Σₜ₌₀ᵀ⁻² [idₜ₊₁ ≠ pad])",
    "09": "Δ p = -rate ((m / (1 - b₁ⁿ)) / (√(s / (1 - b₂ⁿ)) + ε) + decay · p)",
    "10": "cosine(s) = floor + (peak - floor) (1 + cos π s) / 2\nline(s) = floor + (peak - floor) (1 - s)",
    "11": "norm = √(Σ_leaves Σᵢ gᵢ²)    clipped = g · min(1, max_norm / norm)",
    "12": "ḡ = (Σⱼ₌₁ᵏ ∇ loss_sumⱼ) / (Σⱼ₌₁ᵏ countⱼ)",
    "29": "pᵢ = e^(logitᵢ / temperature) / (Σⱼ e^(logitⱼ / temperature))",
    "31": "y = x W + bias + (α / r) x a b",
    "37": "θᵢ = position · base^(-2i/K)",
    "38": "y = scale · x / √(mean(x²) + ε)",
    "41": "gelu(x) = (x / 2) (1 + tanh(√(2 / π) (x + 0.044715 x³)))",
    "43": "dv = Pᵀ dO    dS = P · (dO vᵀ - delta)",
    "44": "dx = r (dn - n · mean(dn · n))    dweight = Σₜ gₜ · nₜ",
    "45": "(s_f / 2) Σ_d |x_td| + (sₜ / 2) Σ_d |Ŵ_df|",
    "46": "Δ p = -rate (0.2 √max(A, B) · orthogonalize(m) + decay · p)",
    "48": "balance = E Σₑ fₑ Pₑ",
    "49": "o = (e^(m₁ - m) s₁ + e^(m₂ - m) s₂)\n    / (e^(m₁ - m) l₁ + e^(m₂ - m) l₂),    m = max(m₁, m₂)",
    "50": "loss = -ln σ(β (gain(chosen) - gain(rejected)))    gain(y) = ln π(y) - ln r(y)",
    "51": "loss = (1 / N) Σᵢ Σₜ (β (e^(dᵢₜ) - dᵢₜ - 1) - gainᵢₜ)",
    "52": "residual(x) = max(p(x) - q(x), 0) / (Σ_y max(p(y) - q(y), 0))",
    "55": "1 - (1 - sʳ)ᵇ",
    "56": "L(w, b) = (1 / N) Σₙ (ln(1 + e^(zₙ)) - yₙ zₙ) + (λ / 2) Σⱼ wⱼ²",
    "58": "N = (α A / (β B))^(1 / (α + β)) (C / k)^(β / (α + β))",
    "59": "((p - mean(p)) / σ) · (scale × Eᵥ)",
    "61": "‖ W R ‖ / (‖ W ‖ ‖ R ‖)",
    "62": "g - (g · w) w",
    "70": "soft = τ² Σᵥ pᵥ (ln pᵥ - ln qᵥ)",
    "72": "√(1/t) = 0.1 ln s + 1",
    "73": "chosen = the k largest of sₑ + bₑ,\ngₑ = sₑ / (Σ_chosen s)",
    "78": "seconds = max(operations / flops, bytes / bandwidth)",
    "84": "exposure = log₂ R - log₂ rank",
    "80": "pass@k = 1 - C(n - c, k) / C(n, k)",
    "71": "weightₜₛ = e^(scoreₜₛ) / (e^(zₕ) + Σᵣ e^(scoreₜᵣ))",
    "75": "loss = meanₜ(-ln pₜ(xₜ₊₁)) + λ · meanₜ(-ln qₜ(xₜ₊₂))",
    "77": "H⁻¹ = Uᵀ U",
    "76": "Σ_d |x_td| e_df + Σ_d e_td |Ŵ_df|",
    "79": "loss = -(1 / N) Σᵢ Σₜ wᵢₜ min(ρᵢₜ Aᵢ, clip(ρᵢₜ) Aᵢ)",
    "85": "(p, p + r, p + c)",
}


def test_every_formula_of_the_course():
    """A new formula is added here once somebody has read it as text."""
    texts = {problem.label: page.without_hints(problem) for problem in catalog.problems()}
    shown = {label: "\n".join(map(as_text, match[1].split("\n")[:-1])) for label, text in texts.items()
             for match in page.FORMULAS.finditer(text)}  # fmt: skip
    assert shown == PAGES
    assert not re.search("```math|[$]", "".join(map(page.as_text, texts.values())))


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\frac{a}{b c}", "a / (b c)"),
        (r"\frac{a}{b} c", "(a / b) c"),
        (r"\frac{a + b}{f(x + y)}", "(a + b) / f(x + y)"),
        (r"x_{\text{mask}} x_{ij} x^{n-1} x^{a+b+c}", "x_mask xᵢⱼ xⁿ⁻¹ x^(a+b+c)"),
        (r"\hat y \le \beta", "ŷ ≤ β"),
        (r"\{x\}", "{x}"),
        (r"\frac{a", "a / "),
    ],
)
def test_small_formulas(latex: str, text: str):
    assert as_text(latex).strip() == text.strip()
