/* junit - a test suite a run, a test case a prompt; a prompt that only the razor excuses passes and says so */
#include "reports/escape.h"
#include "reports/form.h"

#include <stdlib.h>
#include <string.h>

#define SENTENCES_MAX 50 /* of one prompt; the rest is counted */

enum outcome {
    PASSED,
    EXCUSED, /* benign differences only */
    FAILED,
    NOT_JUDGED,
};

static enum outcome outcome_of(const struct report_prompt *p)
{
    if (p->verdict == V_COUNT)
        return NOT_JUDGED;
    if (p->verdict == V_EQUAL)
        return PASSED;
    /* What follows a root that the razor excuses is a consequence, not a fault of its own. */
    for (int i = 0; i < p->positions; i++) {
        const struct report_position *at = &p->position[i];
        if (at->judged && at->row.verdict != V_CASCADE && !verdict_is_benign(at->row.verdict))
            return FAILED;
        if ((at->decode && !verdict_is_benign(at->decode->verdict)) ||
            (at->prefill && !verdict_is_benign(at->prefill->verdict)))
            return FAILED;
        if (at->judged && at->row.verdict == V_CASCADE && at->row.root)
            return FAILED;
    }
    return p->tokenisation ? FAILED : EXCUSED;
}

static void put_sentence(FILE *f, const struct report *r, const struct verdict_row *v, int *left)
{
    if (--*left < 0)
        return;
    char *text = report_sentence(r, v);
    put_xml(f, text);
    fputc('\n', f);
    free(text);
}

/* Everything but cascades, which follow from a root that is listed. */
static void put_sentences(FILE *f, const struct report *r, const struct report_prompt *p)
{
    int left = SENTENCES_MAX;
    if (p->tokenisation)
        put_sentence(f, r, p->tokenisation, &left);
    for (int i = 0; i < p->positions; i++) {
        const struct report_position *at = &p->position[i];
        if (at->judged && at->row.verdict != V_EQUAL && (at->row.verdict != V_CASCADE || at->row.root))
            put_sentence(f, r, &at->row, &left);
        if (at->decode)
            put_sentence(f, r, at->decode, &left);
        if (at->prefill)
            put_sentence(f, r, at->prefill, &left);
    }
    if (left < 0)
        fprintf(f, "and %d more\n", -left);
}

static void put_again(FILE *f, const struct report *r)
{
    const char *again = json_string_value(json_object_get(r->summary, "again"));
    if (!again || !*again)
        return;
    fputs("again: ", f);
    put_xml(f, again);
    fputc('\n', f);
}

static const struct verdict_row *gravest(const struct report_prompt *p)
{
    const struct verdict_row *worst = p->tokenisation ? p->tokenisation : p->root;
    for (int i = 0; i < p->positions; i++) {
        const struct report_position *at = &p->position[i];
        const struct verdict_row *each[] = {at->judged ? &at->row : NULL, at->decode, at->prefill};
        for (int k = 0; k < 3; k++)
            if (each[k] && each[k]->verdict == p->verdict && (!worst || worst->verdict < p->verdict))
                worst = each[k];
    }
    return worst;
}

static void put_failure(FILE *f, const struct report *r, const struct report_prompt *p)
{
    const struct verdict_row *v = gravest(p);
    char *text = v ? report_sentence(r, v) : NULL;
    fputs("      <failure type=\"", f);
    put_xml(f, verdict_name(p->verdict));
    fputs("\" message=\"", f);
    put_xml(f, text);
    fputs("\">", f);
    put_sentences(f, r, p);
    put_again(f, r);
    fputs("</failure>\n", f);
    free(text);
}

static void put_case(FILE *f, const struct report *r, const struct report_prompt *p)
{
    enum outcome o = outcome_of(p);
    fputs("    <testcase classname=\"", f);
    put_xml(f, r->battery_name);
    fputs("\" name=\"", f);
    put_xml(f, p->name);
    fputs(o == PASSED ? "\"/>\n" : "\">\n", f);
    if (o == PASSED)
        return;
    if (o == FAILED)
        put_failure(f, r, p);
    if (o == NOT_JUDGED)
        fputs("      <skipped message=\"not judged\"/>\n", f);
    if (o == EXCUSED) {
        fputs("      <system-out>", f);
        put_sentences(f, r, p);
        fputs("</system-out>\n", f);
    }
    fputs("    </testcase>\n", f);
}

/* A run without a verdict, or whose verdict is about the run and no prompt, is an error of its own test case. */
static int run_is_error(const struct report *r)
{
    int failed = 0;
    for (int i = 0; i < r->prompts; i++)
        failed += outcome_of(&r->prompt[i]) == FAILED;
    return r->verdict == RV_COUNT || r->verdict == RV_NO_EVIDENCE || r->verdict == RV_VOID ||
           (r->verdict == RV_FAIL && !failed);
}

static void put_properties(FILE *f, const struct report *r)
{
    static const char *const keys[] = {"model",          "battery", "arm",          "model_sha256",
                                       "battery_sha256", "commit",  "golden_sha256"};
    char power[200];
    report_power(r, power, sizeof power);
    fputs("    <properties>\n", f);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        fprintf(f, "      <property name=\"%s\" value=\"", keys[i]);
        put_xml(f, json_string_value(json_object_get(r->run, keys[i])));
        fputs("\"/>\n", f);
    }
    fprintf(f, "      <property name=\"verdict\" value=\"%s\"/>\n      <property name=\"power\" value=\"",
            report_verdict(r));
    put_xml(f, power);
    fputs("\"/>\n    </properties>\n", f);
}

static void put_suite(FILE *f, const struct report *r)
{
    int failed = 0, skipped = 0, error = run_is_error(r);
    for (int i = 0; i < r->prompts; i++) {
        failed += outcome_of(&r->prompt[i]) == FAILED;
        skipped += outcome_of(&r->prompt[i]) == NOT_JUDGED;
    }
    fputs("  <testsuite name=\"", f);
    put_xml(f, r->model);
    fputs(" ", f);
    put_xml(f, r->battery_name);
    fputs(" ", f);
    put_xml(f, r->arm);
    fprintf(f, "\" tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\" id=\"%lld\">\n", r->prompts + error,
            failed, error, skipped, (long long)r->id);
    put_properties(f, r);
    for (int i = 0; i < r->prompts; i++)
        put_case(f, r, &r->prompt[i]);
    if (error) {
        fputs("    <testcase classname=\"", f);
        put_xml(f, r->battery_name);
        fprintf(f, "\" name=\"the run\">\n      <error type=\"%s\" message=\"", report_verdict(r));
        put_xml(f, r->why);
        fputs("\">", f);
        put_again(f, r);
        fputs("</error>\n    </testcase>\n", f);
    }
    fputs("  </testsuite>\n", f);
}

static int write(FILE *f, const struct report *const *runs, int n, struct err *e)
{
    (void)e;
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"assay\">\n", f);
    for (int i = 0; i < n; i++)
        put_suite(f, runs[i]);
    fputs("</testsuites>\n", f);
    return OK;
}

FORM(junit) = {.name = "junit", .summary = "JUnit XML, a test case a prompt", .ending = ".xml", .write = write};
