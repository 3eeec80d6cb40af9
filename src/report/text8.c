/* SPDX-License-Identifier: Apache-2.0 */
#include "report/text8.h"

#include <stdlib.h>
#include <string.h>

/* Length of the UTF-8 sequence at s, 0 if there is none. */
static size_t sequence(const unsigned char *s, size_t n)
{
    if (*s < 0x80)
        return 1;
    size_t len = *s >= 0xf0 && *s < 0xf5 ? 4 : *s >= 0xe0 && *s < 0xf0 ? 3 : *s >= 0xc2 && *s < 0xe0 ? 2 : 0;
    if (!len || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool wrong = (*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] >= 0xa0) || (*s == 0xf0 && s[1] < 0x90) ||
                 (*s == 0xf4 && s[1] >= 0x90);
    return wrong ? 0 : len;
}

json_t *stem_json_text_n(const char *s, size_t n)
{
    struct stem_out clean = {0};
    for (size_t i = 0; i < n;) {
        size_t len = sequence((const unsigned char *)s + i, n - i);
        if (len)
            stem_out_bytes(&clean, s + i, len);
        else
            stem_out_str(&clean, "\xef\xbf\xbd");
        i += len ? len : 1;
    }
    json_t *text = json_stringn(stem_out_text(&clean), clean.len);
    stem_out_free(&clean);
    return text;
}

json_t *stem_json_text(const char *s)
{
    return s ? stem_json_text_n(s, strlen(s)) : json_null();
}

void stem_json_put(json_t *value, struct stem_out *o)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    json_decref(value);
    for (const char *p = text; p && *p;) {
        size_t n = strcspn(p, "<");
        stem_out_bytes(o, p, n);
        p += n;
        if (*p) {
            stem_out_str(o, "\\u003c");
            p++;
        }
    }
    free(text);
}
