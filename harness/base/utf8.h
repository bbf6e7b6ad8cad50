/* utf8 - characters of untrusted text: is it one, and how can it be shown so that nothing is hidden */
#ifndef ASSAY_BASE_UTF8_H
#define ASSAY_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define UTF8_UNIT_SIZE 16

/* Length of the well-formed character at s, 0 when there is none (cut, overlong, lone surrogates). left >= 1. */
size_t utf8_character(const char *s, size_t left, uint32_t *code_point);

/* One visible unit of a text, as a string: the character itself, or an escape when it is no UTF-8, a control, a mark of
 * direction, a separator or without a width. Returns the bytes taken. */
size_t utf8_visible(const char *s, size_t left, int double_backslash, char out[UTF8_UNIT_SIZE]);

#endif
