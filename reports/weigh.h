/* weigh - lays stored verdicts, streams and the golden's rows side by side, position by position */
#ifndef ASSAY_REPORTS_WEIGH_H
#define ASSAY_REPORTS_WEIGH_H

#include "reports/gather.h"

/* Fills p->position, root, tokenisation and verdict from r->row, p's streams and p->golden. */
int report_weigh(const struct report *r, struct report_prompt *p, struct err *e);

#endif
