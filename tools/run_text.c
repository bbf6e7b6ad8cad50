#include "tools/run_text.h"

#include "harness/base/verdict.h"
#include "reports/escape.h"

#include <math.h>
#include <string.h>

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static long num(const json_t *o, const char *key)
{
    return (long)json_integer_value(json_object_get(o, key));
}

static double real(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

void run_text_verdict(FILE *f, const struct tool *t, const char *verdict)
{
    const char *colour = !strcmp(verdict, "PASS") ? "32" : !strcmp(verdict, "PASS_BY_RAZOR") ? "36" : "31";
    if (!strcmp(verdict, "NO_EVIDENCE") || !strcmp(verdict, "VOID"))
        colour = "33";
    if (t->colour)
        fprintf(f, "\033[1;%sm%s\033[0m", colour, verdict);
    else
        fputs(verdict, f);
}

void run_text_id(FILE *f, long id, const struct token_text *tok)
{
    char buf[96];
    if (id < 0) {
        fputs("nothing", f);
        return;
    }
    token_text_quote(tok, (int32_t)id, buf, sizeof buf);
    fprintf(f, "%ld%s%s", id, *buf ? " " : "", buf);
}

static void print_gap(FILE *f, const json_t *row)
{
    double gap = real(row, "gap_nats"), bound = real(row, "gap_bound_nats"), ulp = real(row, "ulp_nats"),
           razor = real(row, "razor_nats"), jitter = real(row, "jitter_nats");
    const char *more = isnan(gap) ? ">= " : "";
    double shown = isnan(gap) ? bound : gap;
    if (isnan(shown))
        return;
    fprintf(f, ", gap %s%.6g nat", more, shown);
    if (ulp > 0)
        fprintf(f, " (%s%.4g ULP, razor %.4g)", more, shown / ulp, razor / ulp);
    if (num(row, "ties") > 1)
        fprintf(f, ", %ld tied", num(row, "ties"));
    if (jitter > 0)
        fprintf(f, ", oracle's own jitter %.6g nat", jitter);
}

void run_text_row(FILE *f, const char *battery, const json_t *row, const struct token_text *tok)
{
    const char *shape = str(row, "shape");
    fprintf(f, "%s: %s token %ld: %s%s%s: got ", battery, str(row, "prompt"), num(row, "position"), str(row, "verdict"),
            strcmp(shape, "free") ? ", forced " : "", strcmp(shape, "free") ? shape : "");
    run_text_id(f, num(row, "arm_id"), tok);
    fputs(", oracle ", f);
    run_text_id(f, num(row, "golden_id"), tok);
    print_gap(f, row);
    fputc('\n', f);
}

/* Rows of one kind, `left` at most (-1: all); returns what is left. */
static int print_kind(FILE *f, const json_t *o, const json_t *list, int benign, int left, const struct token_text *tok)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)list, i, row)
    {
        if (!left || verdict_is_benign(verdict_by_name(str(row, "verdict"))) != benign)
            continue;
        fputs("  ", f);
        run_text_row(f, str(o, "battery"), row, tok);
        left -= left > 0;
    }
    return left;
}

/* What fails comes first, so that a shortened list never hides it. */
static void print_rows(FILE *f, const json_t *o, const char *title, const json_t *list, int shown,
                       const struct token_text *tok)
{
    size_t n = json_array_size(list);
    if (!n)
        return;
    fprintf(f, "\n%s (%zu)\n", title, n);
    int left = print_kind(f, o, list, 0, shown ? shown : -1, tok);
    print_kind(f, o, list, 1, left, tok);
    if (shown && n > (size_t)shown)
        fprintf(f, "  and %zu more: assay show %ld --all\n", n - (size_t)shown, num(o, "run"));
}

static void print_head(FILE *f, const json_t *o)
{
    const json_t *oracle = json_object_get(o, "oracle");
    fprintf(f, "arm       %s\n", str(o, "arm"));
    fprintf(f, "model     %s\nbattery   %s, %ld prompts\n", str(o, "model"), str(o, "battery"), num(o, "prompts"));
    fprintf(f, "golden    %s: %s %s, %s, %s, sha256 %.12s\n", str(o, "golden"), str(oracle, "name"),
            str(oracle, "version"), str(oracle, "gpu"), str(oracle, "dtype"), str(o, "golden_sha256"));
    if (*str(o, "forecast"))
        fprintf(f, "forecast  %s\n", str(o, "forecast"));
}

static void print_figures(FILE *f, const json_t *o)
{
    const json_t *forced = json_object_get(o, "forced"), *logits = json_object_get(o, "logits");
    fprintf(f, "\nprompts   %ld/%ld exact\n", num(o, "prompts_exact"), num(o, "prompts"));
    fprintf(f, "tokens    %ld/%ld equal", num(o, "tokens_equal"), num(o, "tokens"));
    if (num(o, "cascades"))
        fprintf(f, "; %ld after a root (%ld of them judged on the golden's own prefix)", num(o, "cascades"),
                num(o, "cascades") - num(o, "cascades_unjudged"));
    fprintf(f, "\nroots     %zu", json_array_size(json_object_get(o, "roots")));
    if (json_array_size(json_object_get(o, "roots")))
        fprintf(f, ", widest gap %.6g nat (%.4g ULP)", real(o, "worst_gap_nats"), real(o, "worst_gap_ulp"));
    fputc('\n', f);
    if (num(forced, "positions"))
        fprintf(f, "forced    %ld/%ld argmax equal, widest gap %.6g nat (%.4g ULP)\n", num(forced, "argmax_equal"),
                num(forced, "positions"), real(forced, "worst_gap_nats"), real(forced, "worst_gap_ulp"));
    if (num(logits, "decode_rows") || num(logits, "prefill_rows"))
        fprintf(f, "logits    %ld/%ld decode rows and %ld/%ld prefill rows equal in every bit\n",
                num(logits, "decode_rows_equal"), num(logits, "decode_rows"), num(logits, "prefill_rows_equal"),
                num(logits, "prefill_rows"));
}

static void print_statistics(FILE *f, const json_t *o)
{
    const json_t *s = json_object_get(o, "statistics");
    if (!json_is_object(s))
        return;
    fprintf(f, "stats     KL %.4g +- %.2g nat (at least: from the stored lists), top-1 %.5g +- %.2g %%",
            real(s, "kl_mean_nats"), real(s, "kl_stderr_nats"), 100 * real(s, "top1"), 100 * real(s, "top1_stderr"));
    if (num(s, "perplexity_positions"))
        fprintf(f, ", perplexity %.5g +- %.2g (oracle %.5g)", real(s, "perplexity"), real(s, "perplexity_stderr"),
                real(s, "oracle_perplexity"));
    fputc('\n', f);
}

static void print_anchor(FILE *f, const json_t *o)
{
    const json_t *a = json_object_get(o, "anchor");
    size_t i;
    json_t *n;
    if (json_is_object(a) && *str(a, "stale"))
        fprintf(f, "anchor    %.12s is stale and was not used: %s\n", str(a, "sha256"), str(a, "stale"));
    else if (json_is_object(a))
        fprintf(f, "anchor    %ld/%ld prompts as ratified by %s (%s; %s)\n", num(a, "prompts_equal"), num(a, "prompts"),
                str(a, "by"), str(a, "reason"), str(a, "evidence"));
    json_array_foreach(json_object_get(o, "negative"), i, n)
        fprintf(f, "known     %ld of %ld prompts that differ land on the negative golden %s (%.12s)\n",
                num(n, "prompts"), num(n, "of"), str(n, "arm"), str(n, "golden"));
}

static void print_device(FILE *f, const json_t *o)
{
    const json_t *d = json_object_get(o, "device");
    if (!json_is_object(d) || json_is_true(json_object_get(d, "same")))
        return;
    fprintf(f, "device    the golden is of %s, the arm computes as %s\n",
            *str(d, "golden") ? str(d, "golden") : "a device that it does not name",
            *str(d, "arm") ? str(d, "arm") : "a device that it does not name");
}

static void print_counters(FILE *f, const json_t *o)
{
    const char *name;
    json_t *c;
    json_object_foreach(json_object_get(o, "counters"), name, c)
    {
        fprintf(f, "counter   %s=%ld ", name, num(c, "ran"));
        if (json_is_integer(json_object_get(c, "expected")))
            fprintf(f, "(expected %ld)\n", num(c, "expected"));
        else
            fprintf(f, "(expected number unknown)\n");
    }
}

static void print_noise(FILE *f, const json_t *o)
{
    const json_t *n = json_object_get(o, "oracle_noise"), *r = json_object_get(o, "razor");
    fprintf(f, "razor     %.4g ULP, at most %.4g nat%s\n", real(r, "ulp"), real(r, "cap_nats"),
            json_is_true(json_object_get(r, "grid_inferred")) ? "; the ULP was inferred from log-probabilities" : "");
    fprintf(f, "noise     the oracle against itself: batch companions change %ld prompts (widest gap %.4g ULP)",
            num(n, "batch_roots"), real(n, "batch_worst_gap_ulp"));
    if (num(n, "rows"))
        fprintf(f, "; prefill = decode in %ld of %ld rows, argmax in %ld", num(n, "prefill_rows_equal_decode"),
                num(n, "rows"), num(n, "prefill_argmax_is_emitted"));
    fputc('\n', f);
}

static void print_all(FILE *f, const struct tool *t, const json_t *o, int shown, const struct token_text *tok)
{
    const json_t *power = json_object_get(o, "power");
    size_t i;
    json_t *line;
    print_head(f, o);
    print_device(f, o);
    print_figures(f, o);
    print_statistics(f, o);
    print_anchor(f, o);
    print_counters(f, o);
    print_noise(f, o);
    if (num(json_object_get(o, "witness"), "widened"))
        fprintf(f, "witness   %s tells %ld gaps outside the golden's lists; its rows agree in every stored bit\n",
                str(json_object_get(o, "witness"), "arm"), num(json_object_get(o, "witness"), "widened"));
    print_rows(f, o, "roots", json_object_get(o, "roots"), shown, tok);
    print_rows(f, o, "forced positions that differ", json_object_get(json_object_get(o, "forced"), "differences"),
               shown, tok);
    json_array_foreach(json_object_get(o, "missing"), i, line) fprintf(f, "missing   %s\n", json_string_value(line));
    fprintf(f,
            "\npower     %ld tokens judged, %ld independent roots; a flip rate of %.3g per token would have shown "
            "(95 %%)\n",
            num(power, "tokens_judged"), num(power, "roots"), real(power, "flip_rate_95"));
    fputs("verdict   ", f);
    run_text_verdict(f, t, str(o, "verdict"));
    fprintf(f, ": %s\n", str(o, "why"));
    fprintf(f, "look      assay explain %ld PROMPT[:TOKEN]\n", num(o, "run"));
    if (*str(o, "again"))
        fprintf(f, "again     %s\n", str(o, "again"));
}

/* Names come from files and people: what a terminal would obey is shown instead. */
void run_text(FILE *f, const struct tool *t, const json_t *summary, int shown, const struct token_text *tok)
{
    json_t *o = json_deep_copy(summary);
    json_visible(o);
    print_all(f, t, o, shown, tok);
    json_decref(o);
}
