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

/* The statement at `at` begins with this word. */
static bool statement_is(const char *text, uint32_t at, const char *word)
{
    size_t n = strlen(word);
    while (at > 0 && !strchr(";{}", text[at - 1]))
        at--;
    while (isspace((unsigned char)text[at]))
        at++;
    return !strncmp(text + at, word, n) && !isalnum((unsigned char)text[at + n]);
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

bool stem_parse_foreign(struct stem_parse *p, struct stem_span at, bool name)
{
    size_t n, m = at.end - at.begin;
    const char *text = p->source->text, *this_one = text + at.begin, *before = word_before(p, p->last_end, &n);
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
    else if (is_word(this_one, m, "as") && statement_is(text, at.begin, "return"))
        stem_diag_help(p->diags, "f32(x) converts x, as every type does");
    else if (is_word(this_one, m, "on after priority resource") && statement_is(text, at.begin, "return"))
        stem_diag_help(p->diags, "this goes with an op: NAME = ... %.*s ...; return NAME;", (int)m, this_one);
    else if (is_word(this_one, m, "on after priority resource") && follows(text, at.begin, '='))
        stem_diag_help(p->diags, "this stands behind the op: NAME = ... %.*s ...;", (int)m, this_one);
    else if (name_begins(this_one) && word_is(text, at.begin, "on"))
        stem_diag_help(p->diags, "a statement has its stream at its end, NAME = ... on %.*s;, several have it around them: on %.*s { }",
                       (int)n, before, (int)n, before);
    else if (is_word(before, n, "for while loop") || is_word(this_one, m, "for while loop"))
        stem_diag_help(p->diags, "repeat N as i { } repeats statements");
    else if (is_word(before, n, "if") || is_word(this_one, m, "else"))
        stem_diag_help(p->diags, "when (CONDITION) { } else { } chooses");
    else if (is_word(before, n, "def fn func function graph") ||
             is_word(this_one, m, "def fn func function graph"))
        stem_diag_help(p->diags, "layer NAME(x: TYPE) -> TYPE { } and model NAME(x: TYPE) -> TYPE { } declare what is called");
    else if (m == 1 && *this_one == '=' && at.begin > 0 && strchr("+-*/%", this_one[-1]))
        stem_diag_help(p->diags, "a value does not change: NAME = NAME %c ...; gives the name to a new one", this_one[-1]);
    else if (m == 1 && *this_one == '=' && follows(text, at.begin, ']'))
        stem_diag_help(p->diags, "a part is not assigned; cache_store and kernels with `inout` write in place");
    else if (m == 1 && *this_one == '[')
        stem_diag_help(p->diags, "sizes in brackets stand in types and in view(x, [T, 8, 128]), which reshapes");
    else if (is_word(before, n, "in inout consume release") && (*this_one == ':' || *this_one == '='))
        stem_diag_help(p->diags, "'%.*s' is a word of the language and cannot be a name", (int)n, before);
    else if (name && m > 1 && isalpha((unsigned char)*this_one))
        stem_diag_help(p->diags, "'%.*s' is a word of the language and cannot be a name", (int)m, this_one);
    else
        return false;
    return true;
}
