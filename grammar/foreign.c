/* SPDX-License-Identifier: Apache-2.0
 *
 * Help for what people write who come from other languages: at a syntax error, a look at the words beside it.
 */
#include "grammar/parse.h"

#include <ctype.h>
#include <string.h>

/* The word that ends at `end`; its length in *n. */
static const char *word_before(const struct stem_parse *p, uint32_t end, size_t *n)
{
    const char *text = p->source->text;
    uint32_t begin = end;
    while (begin > 0 && (isalnum((unsigned char)text[begin - 1]) || text[begin - 1] == '_'))
        begin--;
    *n = end - begin;
    return text + begin;
}

static bool is_word(const char *s, size_t n, const char *list)
{
    for (const char *w = list; *w; w += strcspn(w, " "), w += *w == ' ')
        if (strcspn(w, " ") == n && !strncmp(w, s, n))
            return true;
    return false;
}

/* The word in front of the parentheses that end before `at`, as `if` in "if (x) {"; empty if there is none. */
static const char *word_before_parens(const struct stem_parse *p, uint32_t at, size_t *n)
{
    const char *text = p->source->text;
    uint32_t depth = 0, first = at > 500 ? at - 500 : 0; /* not far, lest many such errors take long */
    while (at > first && isspace((unsigned char)text[at - 1]))
        at--;
    *n = 0;
    if (at == first || text[at - 1] != ')')
        return text;
    while (at > first) {
        at--;
        depth += text[at] == ')';
        if (text[at] == '(' && !--depth)
            break;
    }
    while (at > first && isspace((unsigned char)text[at - 1]))
        at--;
    return word_before(p, at, n);
}

static bool follows(const char *text, uint32_t at, char c)
{
    while (at > 0 && isspace((unsigned char)text[at - 1]))
        at--;
    return at > 0 && text[at - 1] == c;
}

/* Where the statement or declaration at `at` begins. Texts are asked about from front to back, so each is read once. */
static uint32_t statement(struct stem_parse *p, uint32_t at)
{
    const char *text = p->source->text;
    uint32_t i = p->seen;
    while (i < at) {
        bool first = i == p->begin, blank = isspace((unsigned char)text[i]), comment = true;
        if (text[i] == '#' || (text[i] == '/' && text[i + 1] == '/'))
            while (i < at && text[i] != '\n')
                i++;
        else if (text[i] == '/' && text[i + 1] == '*')
            for (i += 3; i < at && (text[i - 2] != '*' || text[i - 1] != '/');)
                i++;
        else
            comment = text[i++] == '\0';
        if ((first && (blank || comment)) || (!comment && strchr(";{}", text[i - 1])))
            p->begin = i;
    }
    p->seen = i;
    return p->begin;
}

/* The statement at `at` begins with one of these words. */
static bool statement_is(struct stem_parse *p, uint32_t at, const char *list)
{
    const char *text = p->source->text + statement(p, at);
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '_')
        n++;
    return is_word(text, n, list);
}

/* The word before the one that ends before `at` is this one. */
static bool word_is(const char *text, uint32_t at, const char *word)
{
    size_t n = strlen(word);
    while (at > 0 && isspace((unsigned char)text[at - 1]))
        at--;
    while (at > 0 && (isalnum((unsigned char)text[at - 1]) || text[at - 1] == '_'))
        at--;
    while (at > 0 && isspace((unsigned char)text[at - 1]))
        at--;
    return at >= n && !strncmp(text + at - n, word, n) && (at == n || !isalnum((unsigned char)text[at - n - 1]));
}

static bool name_begins(const char *s)
{
    return isalpha((unsigned char)*s) || *s == '_';
}

#define TYPES "float double int long half bool float32 float16 bfloat16 tensor Tensor f32 f16 bf16 f8e4m3 i32 i64 u8"

/* Whether the name at `s` has a '=' behind it. */
static bool is_assigned(const char *s)
{
    while (isalnum((unsigned char)*s) || *s == '_')
        s++;
    while (isspace((unsigned char)*s))
        s++;
    return s[0] == '=' && s[1] != '=';
}

/* The text from the declaration's begin to `at` has a "->". */
static bool behind_arrow(struct stem_parse *p, uint32_t at)
{
    const char *text = p->source->text;
    uint32_t begin = statement(p, at), first = at > begin + 500 ? at - 500 : begin; /* not far, as above */
    for (uint32_t i = first; i + 1 < at; i++)
        if (text[i] == '-' && text[i + 1] == '>')
            return true;
    return false;
}

/* The string at `s` holds one word; its length in *n. */
static bool is_quoted_word(const char *s, size_t *n)
{
    for (*n = 1; isalnum((unsigned char)s[*n]) || s[*n] == '_';)
        ++*n;
    return *s == '"' && *n > 1 && s[(*n)--] == '"';
}

/* Declarations and their parts. */
static bool foreign_item(struct stem_parse *p, struct stem_span at, struct stem_could could)
{
    size_t n, m = at.end - at.begin;
    const char *text = p->source->text, *this_one = text + at.begin, *before = word_before(p, p->last_end, &n);
    if (could.item && (is_word(this_one, m, "let var auto constexpr static int float define") ||
                       (name_begins(this_one) && is_assigned(this_one))))
        stem_diag_help(p->diags, "`const NAME = 4;` names a number; values are defined within a layer or a model");
    else if (*this_one == ':' && statement_is(p, at.begin, "const"))
        stem_diag_help(p->diags, "a const has no type: const NAME = 4;");
    else if (statement_is(p, at.begin, "dim") && (could.range || *this_one == '['))
        stem_diag_help(p->diags, "a dim has a range: dim NAME in 1..8;");
    else if (((could.colon && *this_one == '[') || (!could.expr && *this_one == ',')) && behind_arrow(p, at.begin))
        stem_diag_help(p->diags, "several results stand in parentheses and have names: -> (a: f32[4], b: f32[4])");
    else if (is_word(before, n, "from") && statement_is(p, at.begin, "extern"))
        stem_diag_help(p->diags, "a library's name stands in quotes: from \"%.*s\"", (int)strcspn(this_one, "; \t\r\n"), this_one);
    else if (could.colon && !could.expr && name_begins(this_one) && is_word(before, n, TYPES))
        stem_diag_help(p->diags, "a type stands behind the name: %.*s: f32[4]", (int)m, this_one);
    else
        return false;
    return true;
}

/* Statements and expressions. */
static bool foreign_statement(struct stem_parse *p, struct stem_span at, struct stem_could could)
{
    size_t n, m = at.end - at.begin, quoted;
    const char *text = p->source->text, *this_one = text + at.begin, *before = word_before(p, p->last_end, &n);
    if (statement_is(p, at.begin, "with") && !could.item)
        stem_diag_help(p->diags, "on STREAM { } runs its statements on a stream");
    else if (could.bracket && *this_one == ':')
        stem_diag_help(p->diags, "a slice has no step: x[LOW:HIGH, :]");
    else if (could.expr && follows(text, at.begin, '=') && is_quoted_word(this_one, &quoted))
        stem_diag_help(p->diags, "this word stands without quotes: %.*s", (int)quoted, this_one + 1);
    else if (is_word(this_one, m, "release consume inout in") && statement(p, at.begin) == at.begin)
        stem_diag_help(p->diags, "this stands before an operand, where it is used: NAME = OP(%.*s x);", (int)m, this_one);
    else if (name_begins(this_one) && is_assigned(this_one) && is_word(before, n, TYPES))
        stem_diag_help(p->diags, "a value is defined by its name alone: %.*s = ...;", (int)m, this_one);
    else
        return false;
    return true;
}

bool stem_parse_foreign(struct stem_parse *p, struct stem_span at, struct stem_could could)
{
    size_t n, m = at.end - at.begin;
    const char *text = p->source->text, *this_one = text + at.begin, *before = word_before(p, p->last_end, &n);
    if (foreign_item(p, at, could) || foreign_statement(p, at, could))
        return true;
    if (m == 1 && *this_one == '{')
        before = word_before_parens(p, at.begin, &n);
    if (is_word(before, n, "let var auto mut val"))
        stem_diag_help(p->diags, "a value is defined by its name alone: NAME = ...;");
    else if (m == 1 && *this_one == ':' && this_one[1] == '=')
        stem_diag_help(p->diags, "a value is defined by its name alone: NAME = ...;");
    else if (m == 1 && *this_one == '*' && follows(text, at.begin, '*'))
        stem_diag_help(p->diags, "there is no power: x * x, or exp(y * log(x))");
    else if (is_word(before, n, "import include use") || is_word(this_one, m, "import include use"))
        stem_diag_help(p->diags, "one file is one program: nothing is imported");
    else if (is_word(this_one, m, "as") && statement_is(p, at.begin, "return"))
        stem_diag_help(p->diags, "f32(x) converts x, as every type does");
    else if (is_word(this_one, m, "on after priority resource") && statement_is(p, at.begin, "return"))
        stem_diag_help(p->diags, "this goes with an op: NAME = ... %.*s ...; return NAME;", (int)m, this_one);
    else if (is_word(this_one, m, "on after priority resource") && follows(text, at.begin, '='))
        stem_diag_help(p->diags, "this stands behind the op: NAME = ... %.*s ...;", (int)m, this_one);
    else if (name_begins(this_one) && word_is(text, at.begin, "on"))
        stem_diag_help(p->diags, "a statement has its stream at its end, NAME = ... on %.*s;, several have it around them: on %.*s { }",
                       (int)n, before, (int)n, before);
    else if (is_word(before, n, "for while loop") || is_word(this_one, m, "for while loop"))
        stem_diag_help(p->diags, "repeat N as i { } repeats statements");
    else if (is_word(before, n, "if when") || is_word(this_one, m, "else"))
        stem_diag_help(p->diags, "when (CONDITION) { } else { } chooses");
    else if (is_word(before, n, "def fn func function graph") ||
             is_word(this_one, m, "def fn func function graph"))
        stem_diag_help(p->diags, "layer NAME(x: TYPE) -> TYPE { } and model NAME(x: TYPE) -> TYPE { } declare what is called");
    else if (m == 1 && *this_one == '=' && at.begin > 0 && strchr("+-*/%", this_one[-1]))
        stem_diag_help(p->diags, "a value does not change: NAME = NAME %c ...; gives the name to a new one", this_one[-1]);
    else if (m == 1 && *this_one == '=' && follows(text, at.begin, ']'))
        stem_diag_help(p->diags, "a part is not assigned; cache_store and kernels with `inout` write in place");
    else if (could.expr && m == 1 && *this_one == '[')
        stem_diag_help(p->diags, "sizes in brackets stand in types and in view(x, [T, 8, 128]), which reshapes");
    else if (is_word(before, n, "in inout consume release") && (*this_one == ':' || *this_one == '='))
        stem_diag_help(p->diags, "'%.*s' is a word of the language and cannot be a name", (int)n, before);
    else if (could.name && m > 1 && isalpha((unsigned char)*this_one))
        stem_diag_help(p->diags, "'%.*s' is a word of the language and cannot be a name", (int)m, this_one);
    else
        return false;
    return true;
}

bool stem_parse_said(struct stem_parse *p, struct stem_span at)
{
    if (p->bad_end && p->bad_end >= p->last_end && p->bad_end <= at.begin)
        return true; /* "x @ w": the '@' was complained about, which is enough */
    if (p->open_end && (p->open_end == p->last_end || p->open_end == at.end))
        return true; /* what stands behind a string without an end is anybody's guess */
    const char *text = p->source->text;
    bool other = at.end - at.begin == 4 && !strncmp(text + at.begin, "else", 4) && follows(text, at.begin, '}');
    if (other && p->branch)
        return true;
    p->branch = statement_is(p, at.begin, "if when else");
    p->error_end = at.end;
    return false;
}

/* ---- bytes that start no token ---- */

/* The rest of the line behind '#'. */
static void hash_help(struct stem_parse *p, const char *text)
{
    text += 1 + strspn(text + 1, " \t");
    if (!strncmp(text, "define", 6))
        stem_diag_help(p->diags, "`const NAME = 4;` names a number");
    else if (!strncmp(text, "include", 7))
        stem_diag_help(p->diags, "one file is one program: nothing is imported");
    else
        stem_diag_help(p->diags, "a comment begins with //, or stands between /* and */");
}

/* "@side y = x;": the name behind the '@' belongs to it. */
static void at_sign(struct stem_parse *p, struct stem_span at)
{
    const char *text = p->source->text;
    if (statement(p, at.begin) != at.begin || !name_begins(text + at.end)) {
        stem_diag_help(p->diags, "linear(x, w) multiplies x by the transposed w");
        return;
    }
    while (isalnum((unsigned char)text[p->bad_end]) || text[p->bad_end] == '_')
        p->bad_end++;
    int n = (int)(p->bad_end - at.end);
    stem_diag_help(p->diags, "a statement has its stream at its end, NAME = ... on %.*s;", n, text + at.end);
}

/* The byte is in a statement that the parser gave up, on the same line. */
static bool given_up(struct stem_parse *p, struct stem_span at)
{
    if (!p->error_end || p->error_end > at.begin)
        return false;
    bool same = !memchr(p->source->text + p->error_end, '\n', at.begin - p->error_end) && statement(p, at.begin) < p->error_end;
    p->error_end = same ? at.end : 0; /* what was searched is not searched again */
    return same;
}

void stem_parse_bad_byte(struct stem_parse *p, const char *text, struct stem_span at)
{
    const char *line = p->source->text + at.begin;
    unsigned char c = (unsigned char)text[0];
    p->bad_end = at.end;
    if (at.begin < p->quiet_end)
        return;
    if (given_up(p, at))
        return;
    if (c > 0x20 && c < 0x7f)
        stem_error(p->diags, STEM_E_BAD_BYTE, at, "'%c' starts no token", c);
    else
        stem_error(p->diags, STEM_E_BAD_BYTE, at, "byte 0x%02x starts no token", c);
    if (c >= 0x80)
        stem_diag_help(p->diags, "names are letters of ASCII, digits and _; anything may stand in comments and strings");
    else if (c == '@')
        at_sign(p, at);
    else if (c == '#')
        hash_help(p, line);
    else if (c == '.' && at.begin > 0 && isalnum((unsigned char)p->source->text[at.begin - 1]))
        stem_diag_help(p->diags, "there are no methods: what is called stands first, as in silu(x)");
    else if (c == '\'') {
        size_t n = strcspn(line + 1, "'\n");
        p->quiet_end = line[1 + n] == '\'' ? at.begin + (uint32_t)n + 2 : at.end;
        stem_diag_help(p->diags, "a string stands between double quotes: \"%.*s\"", (int)(n < 60 ? n : 4), n < 60 ? line + 1 : "name");
    }
}
