/* Which characters NFC certainly leaves alone, whatever stands beside them. Whole blocks only: a text outside of them
 * is refused rather than normalized. */
#include "harness/base/utf8.h"
#include "harness/tokenizer/private.h"

static const struct {
    uint32_t first, last;
} safe[] = {
    {0x0000, 0x02ff},                     /* Latin */
    {0x0388, 0x03ff},                     /* Greek */
    {0x0400, 0x0482},                     /* Cyrillic */
    {0x048a, 0x052f},   {0x05d0, 0x05f4}, /* Hebrew */
    {0x0620, 0x064a},                     /* Arabic */
    {0x0660, 0x066f},   {0x0e01, 0x0e37}, /* Thai */
    {0x200b, 0x2027},                     /* punctuation */
    {0x202a, 0x205e},   {0x2070, 0x20cf}, /* superscripts, currencies */
    {0x2190, 0x2328},                     /* arrows, mathematics, boxes */
    {0x232b, 0x2adb},   {0x3000, 0x3029}, /* CJK punctuation, Hiragana */
    {0x3030, 0x3098},   {0x309b, 0x312f}, /* Katakana, Bopomofo */
    {0x3400, 0x9fff},                     /* Han */
    {0xac00, 0xd7a3},                     /* Hangul, composed */
    {0xe000, 0xf8ff},                     /* private */
    {0xfe00, 0xfe0f},                     /* variation selectors */
    {0xfe30, 0xffef},                     /* full width */
    {0x1f000, 0x1faff},                   /* pictures */
    {0x20000, 0x2a6df},                   /* Han */
};

size_t tokenizer_nfc_risk(const char *text, size_t bytes)
{
    uint32_t c;
    for (size_t at = 0, n; at < bytes; at += n) {
        size_t i = 0;
        if (!(n = utf8_character(text + at, bytes - at, &c)))
            return at;
        while (i < sizeof safe / sizeof *safe && !(c >= safe[i].first && c <= safe[i].last))
            i++;
        if (i == sizeof safe / sizeof *safe)
            return at;
    }
    return bytes;
}
