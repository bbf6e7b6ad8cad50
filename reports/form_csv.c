/* csv - a line a judged position; RFC 4180 quoting, "\n" ends a line, empty: not known */
#include "reports/escape.h"
#include "reports/form.h"

#include <math.h>

static const char *const shapes[] = {"free", "decode", "prefill"};

static void put_real(FILE *f, double v)
{
    if (isfinite(v))
        fprintf(f, ",%.9g", v);
    else
        fputc(',', f);
}

static void put_id(FILE *f, const struct report *r, int32_t id)
{
    if (id < 0) {
        fputs(",,\"\"", f);
        return;
    }
    fprintf(f, ",%d,", id);
    put_csv(f, report_text(r, id));
}

static void put_row(FILE *f, const struct report *r, const char *prompt, const struct verdict_row *v, int after_root,
                    int judged)
{
    fprintf(f, "%lld,", (long long)r->id);
    put_csv(f, prompt);
    fprintf(f, ",%d,%s,%s,%d,%d", v->position, shapes[v->forced], judged ? verdict_name(v->verdict) : "", v->root,
            after_root);
    put_id(f, r, v->golden_id);
    put_id(f, r, v->arm_id);
    const double reals[] = {v->gap_nats,   v->gap_ulp,     v->gap_bound_nats, v->ulp,
                            v->razor_nats, v->jitter_nats, v->self_gap_nats};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        put_real(f, reals[i]);
    fprintf(f, ",%d\n", v->ties);
}

static void put_prompt(FILE *f, const struct report *r, const struct report_prompt *p)
{
    if (p->tokenisation)
        put_row(f, r, p->name, p->tokenisation, 0, 1);
    for (int i = 0; i < p->positions; i++) {
        const struct report_position *at = &p->position[i];
        put_row(f, r, p->name, &at->row, at->after_root, at->judged);
        if (at->decode)
            put_row(f, r, p->name, at->decode, 0, 1);
        if (at->prefill)
            put_row(f, r, p->name, at->prefill, 0, 1);
    }
}

static int write(FILE *f, const struct report *const *runs, int n, struct err *e)
{
    (void)e;
    fputs("run,prompt,position,shape,verdict,root,after_root,golden_id,golden_text,arm_id,arm_text,gap_nats,gap_ulp,"
          "gap_bound_nats,ulp_nats,razor_nats,jitter_nats,self_gap_nats,ties\n",
          f);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < runs[i]->prompts; k++)
            put_prompt(f, runs[i], &runs[i]->prompt[k]);
    return OK;
}

FORM(csv) = {.name = "csv", .summary = "a line a judged position", .ending = ".csv", .write = write};
