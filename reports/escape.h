/* escape - every text that comes from outside passes through here before it stands in a report
 *
 * First it is made visible: bytes that are no UTF-8 (also lone surrogates), control characters, direction marks, line
 * separators and characters without a width come out as escapes, so that nothing is hidden, reordered or cut. Then the
 * form's own marks are escaped. Making visible twice is the same as once, unless backslashes are doubled.
 */
#ifndef ASSAY_REPORTS_ESCAPE_H
#define ASSAY_REPORTS_ESCAPE_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* The visible form as valid UTF-8 without controls. double_backslash: for texts in which an escape must not be taken
 * for a written backslash. NULL without memory; caller frees. */
char *text_visible(const void *bytes, size_t n, int double_backslash);

/* 1 when some character of visible text is written from right to left. */
int text_is_rtl(const char *visible);

/* All accept NULL as "". */
void put_html(FILE *f, const char *text);     /* element content and quoted attributes */
void put_xml(FILE *f, const char *text);      /* the same for XML 1.0 */
void put_markdown(FILE *f, const char *text); /* inline; no mark, mention, link or table border survives */
void put_csv(FILE *f, const char *text);      /* one quoted field; nothing that a spreadsheet would compute */

/* JSON that may stand in an HTML script element. */
int put_script_json(FILE *f, const json_t *o);

/* Makes every string in o visible, in place: for what a terminal shows. */
void json_visible(json_t *o);

/* A JSON string of the visible text. */
json_t *text_json(const char *text);

#endif
