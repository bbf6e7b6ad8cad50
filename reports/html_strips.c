/* Token strips: what is seen, and the data that the page's script shows about a token. */
#include "reports/escape.h"
#include "reports/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOP_MAX   8     /* entries of a list in the data */
#define LISTS_MAX 20000 /* positions: beyond, only those that differ carry lists */

static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static int differs(const struct report_position *at)
{
    return (at->judged && at->row.verdict != V_EQUAL && at->row.verdict != V_CASCADE) || at->decode || at->prefill ||
           at->row.root;
}

static void put_class(FILE *f, const struct report_position *at)
{
    const struct verdict_row *v = &at->row;
    char name[80] = "";
    if (!at->judged && !at->after_root)
        strcat(name, " void");
    else if (v->verdict != V_EQUAL)
        snprintf(name, sizeof name, " %s", html_token(v));
    else if (at->after_root)
        strcat(name, " after");
    else if (at->margin_nats <= v->razor_nats)
        strcat(name, " close");
    if (v->root)
        strcat(name, " root");
    if (at->decode || at->prefill)
        strcat(name, " forced");
    if (*name)
        fprintf(f, " class=\"%s\"", name + 1);
}

static void put_title(FILE *f, const struct report *r, const struct report_position *at)
{
    const struct verdict_row *v = at->judged && at->row.verdict != V_EQUAL ? &at->row
                                  : at->decode                             ? at->decode
                                                                           : at->prefill;
    char *text = v ? report_sentence(r, v) : NULL;
    if (!text)
        return;
    fputs(" title=\"", f);
    put_html(f, text);
    fputc('"', f);
    free(text);
}

static void put_token(FILE *f, const struct report *r, const struct report_position *at)
{
    int32_t id = at->in_arm ? at->row.arm_id : at->row.golden_id;
    const char *text = report_text(r, id);
    fputs("<span", f);
    put_class(f, at);
    put_title(f, r, at);
    fputc('>', f);
    if (*text)
        put_html(f, text);
    else if (id < 0)
        fputs("\u2205", f);
    else
        fprintf(f, "%d", id);
    fputs("</span>", f);
}

static json_t *position_array(const struct report_position *at)
{
    const struct verdict_row *v = &at->row;
    int flags = v->root | at->after_root << 1 | at->judged << 2;
    return json_pack("[i,i,i,i,o,o,o,o,o,o,i,o]", v->golden_id, v->arm_id, at->judged ? (int)v->verdict : V_COUNT,
                     flags, real(v->gap_nats), real(v->gap_bound_nats), real(v->ulp), real(v->razor_nats),
                     real(v->jitter_nats), real(v->self_gap_nats), v->ties, real(at->margin_nats));
}

static json_t *top_array(const struct view *v, int position)
{
    if (!v)
        return json_null();
    json_t *list = json_array();
    for (int i = 0; i < v->top_k && i < TOP_MAX; i++) {
        size_t at = (size_t)position * (size_t)v->top_k + (size_t)i;
        if (v->top_ids[at] < 0)
            break;
        json_array_append_new(list, json_integer(v->top_ids[at]));
        json_array_append_new(list, real(v->top_values[at]));
    }
    return list;
}

static json_t *more_array(const struct report *r, const struct report_position *at)
{
    const struct verdict_row *each[] = {at->decode, at->prefill};
    json_t *list = json_array();
    for (int i = 0; i < 2; i++) {
        char *text = each[i] ? report_sentence(r, each[i]) : NULL;
        if (text)
            json_array_append_new(list, text_json(text));
        free(text);
    }
    return list;
}

static void add_position(const struct report *r, const struct report_prompt *p, int i, int lists, json_t *o)
{
    const struct view *oracle = NULL, *arm = NULL;
    char key[16];
    if (lists || differs(&p->position[i]))
        report_rows(p, i, 0, &oracle, &arm);
    int same = oracle && arm && report_rows_equal(oracle, arm, i);
    json_array_append_new(json_object_get(o, "at"), position_array(&p->position[i]));
    json_array_append_new(json_object_get(o, "oracle"), top_array(oracle, i));
    json_array_append_new(json_object_get(o, "arm"), same ? json_integer(0) : top_array(arm, i));
    json_array_append_new(json_object_get(o, "lse"),
                          json_pack("[o,o]", oracle ? real(oracle->logsumexp[i]) : json_null(),
                                    arm ? real(arm->logsumexp[i]) : json_null()));
    if (p->position[i].decode || p->position[i].prefill) {
        snprintf(key, sizeof key, "%d", i);
        json_object_set_new(json_object_get(o, "more"), key, more_array(r, &p->position[i]));
    }
}

static int put_data(FILE *f, const struct report *r, const struct report_prompt *p, int lists)
{
    json_t *o = json_pack("{s:o,s:[],s:[],s:[],s:[],s:{},s:[]}", "name", text_json(p->name), "at", "oracle", "arm",
                          "lse", "more", "verdicts");
    for (int v = 0; v < V_COUNT; v++)
        json_array_append_new(json_object_get(o, "verdicts"), json_string(verdict_name((enum verdict)v)));
    json_array_append_new(json_object_get(o, "verdicts"), json_string("not judged"));
    for (int i = 0; i < p->positions; i++)
        add_position(r, p, i, lists, o);
    fputs("<script type=\"application/json\">", f);
    int ok = o && put_script_json(f, o);
    fputs("</script>", f);
    json_decref(o);
    return ok;
}

static int is_same(const struct report_prompt *p)
{
    return report_prompt_exact(p);
}

static void put_heading(FILE *f, const struct report_prompt *p)
{
    fputs("<h3><bdi>", f);
    put_html(f, p->name);
    fputs("</bdi>", f);
    if (p->verdict != V_COUNT && p->verdict != V_EQUAL) {
        /* A cascade says less about a prompt than the root that it follows. */
        const struct verdict_row *v = p->root && p->verdict == V_CASCADE ? p->root : NULL;
        struct verdict_row own = {.verdict = p->verdict};
        fprintf(f, " <span class=\"tag %s\">%s</span>", html_token(v ? v : &own),
                verdict_name(v ? v->verdict : p->verdict));
    }
    fputs("<small>", f);
    if (p->tokenisation)
        fprintf(f, "the prompt's own ids differ at %d", p->tokenisation->position);
    else if (p->verdict == V_COUNT)
        fputs(p->has_free ? "answered, not judged" : "no answer", f);
    else if (p->root)
        fprintf(f, "root at token %d of %d", p->root->position, p->golden ? p->golden->n : p->positions);
    else
        fprintf(f, "%d tokens", p->positions);
    fputs("</small></h3>\n", f);
}

static int put_prompt(FILE *f, const struct report *r, int number, int lists)
{
    const struct report_prompt *p = &r->prompt[number];
    fprintf(f, "<article class=\"prompt%s\" id=\"prompt-%lld-%d\">", is_same(p) ? " same" : "", (long long)r->id,
            number);
    put_heading(f, p);
    fprintf(f, "<div class=\"strip%s\" aria-label=\"tokens of ", r->piece ? "" : " ids");
    put_html(f, p->name);
    fputs("\">", f);
    for (int i = 0; i < p->positions; i++)
        put_token(f, r, &p->position[i]);
    fputs("</div>", f);
    int ok = put_data(f, r, p, lists);
    fputs("</article>\n", f);
    return ok;
}

/* Texts of all ids that the strips or lists mention: the cache holds them after the strips are written. */
static int put_texts(FILE *f, const struct report *r)
{
    json_t *o = json_object();
    char key[16];
    for (int i = 0; i < r->prompts; i++)
        for (int k = 0; k < r->prompt[i].positions; k++) {
            const struct view *v[2];
            report_rows(&r->prompt[i], k, 0, &v[0], &v[1]);
            report_text(r, r->prompt[i].position[k].row.golden_id);
            for (int side = 0; side < 2; side++)
                for (int t = 0; v[side] && t < v[side]->top_k && t < TOP_MAX; t++)
                    report_text(r, v[side]->top_ids[(size_t)k * (size_t)v[side]->top_k + (size_t)t]);
        }
    for (int id = 0; id < r->texts; id++)
        if (r->text[id] && *r->text[id]) {
            snprintf(key, sizeof key, "%d", id);
            json_object_set_new(o, key, text_json(r->text[id]));
        }
    fprintf(f, "<script type=\"application/json\" id=\"texts-run-%lld\">", (long long)r->id);
    int ok = put_script_json(f, o);
    fputs("</script>\n", f);
    json_decref(o);
    return ok;
}

static void put_legend(FILE *f)
{
    fputs(
        "<h2>Tokens</h2>\n<p class=\"legend\"><span class=\"tag\">equal</span><span class=\"tag close\">equal, and the "
        "oracle's runner-up within the razor</span><span class=\"tag tie\">exact tie, split</span>"
        "<span class=\"tag nearer\">near tie, up to half the razor</span><span class=\"tag near\">near tie</span>"
        "<span class=\"tag far\">divergent</span><span class=\"tag odd\">length, not finite</span>"
        "<span class=\"tag cascade\">cascade</span><span class=\"tag after\">equal after a root</span>"
        "<span class=\"tag forced\">forced run differs</span><span class=\"tag far root\">root</span></p>\n"
        "<div class=\"tools\" hidden><label><input type=\"checkbox\"> only prompts that differ</label>"
        "<label>find <input type=\"search\"></label><span class=\"soft\"><kbd>\u2190</kbd> <kbd>\u2192</kbd> token, "
        "<kbd>\u2191</kbd> <kbd>\u2193</kbd> prompt, <kbd>n</kbd> <kbd>p</kbd> next and previous difference, "
        "<kbd>Esc</kbd> close</span></div>\n",
        f);
}

int html_prompts(FILE *f, const struct report *r)
{
    int positions = 0, ok = 1;
    for (int i = 0; i < r->prompts; i++)
        positions += r->prompt[i].positions;
    fputs("<div class=\"prompts\">\n", f);
    put_legend(f);
    for (int i = 0; i < r->prompts && ok; i++)
        ok = put_prompt(f, r, i, positions <= LISTS_MAX);
    fputs("</div>\n", f);
    return ok && put_texts(f, r);
}
