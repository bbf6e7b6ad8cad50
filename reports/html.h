/* html - the parts of the page; form_html.c puts them together */
#ifndef ASSAY_REPORTS_HTML_H
#define ASSAY_REPORTS_HTML_H

#include "reports/gather.h"

#include <stdio.h>

void html_banner(FILE *f, const struct report *r);      /* verdict, why, what was compared, what is missing */
void html_cards(FILE *f, const struct report *r);       /* the figures */
void html_differences(FILE *f, const struct report *r); /* a table; readable without JavaScript */
void html_charts(FILE *f, const struct report *r);      /* inline SVG: gaps on a log axis, gaps over positions */
int html_prompts(FILE *f, const struct report *r);      /* token strips and the data behind them; 0: no memory */
void html_provenance(FILE *f, const struct report *r);  /* counters, oracle, hashes, how to run it again */

/* Colour class of a verdict: of marks in drawings ("c-near") and of tags and tokens ("near"). */
const char *html_mark(enum verdict v);
const char *html_token(const struct verdict_row *v);

#endif
