%code top {
/* SPDX-License-Identifier: Apache-2.0
 *
 * The grammar. Each action is one constructor call. After an error the parser goes on behind the next ';' or '}'.
 */
}

%define api.pure full
%define api.prefix {stem_yy}
%define api.location.type {struct stem_span}
%define parse.error custom
%define parse.lac full
%locations
%expect 0
%param {struct stem_parse *p}

%code requires {
#include "grammar/parse.h"
}

%union {
    struct stem_ident ident;
    struct stem_x *expr;
    const char *text;
    struct stem_span span;
    enum stem_ast_mode mode;
    struct stem_ast_type type;
    struct stem_ast_param *param;
    struct stem_stmt *stmt;
    struct stem_item *item;
    struct stem_arg *arg;
    struct stem_sub *sub;
    struct stem_ast_target *target;
    struct stem_mods mods;
    struct stem_clauses clauses;
    struct stem_x_list exprs;
    struct stem_arg_list args;
    struct stem_sub_list subs;
    struct stem_ast_target_list targets;
    struct stem_ast_param_list params;
    struct stem_stmt_list stmts;
    struct stem_item_list items;
}

%code {
#define YYLLOC_DEFAULT(cur, rhs, n)                                                        \
    ((cur) = (n) ? (struct stem_span){YYRHSLOC(rhs, 1).begin, YYRHSLOC(rhs, n).end}        \
                 : (struct stem_span){YYRHSLOC(rhs, 0).end, YYRHSLOC(rhs, 0).end})
#define YYMAXDEPTH 10000
#define YYMALLOC stem_xmalloc
#define YYFREE free

#include <stdlib.h>
#include <string.h>

static int yylex(YYSTYPE *value, struct stem_span *at, struct stem_parse *p);
static void yyerror(const struct stem_span *at, struct stem_parse *p, const char *message);

static struct stem_item *make_callable(struct stem_parse *p, enum stem_item_kind kind, struct stem_ident id,
                                  struct stem_ast_param_list params, struct stem_ast_param_list more,
                                  struct stem_span at)
{
    struct stem_item *it = stem_make_item(p, kind, id, at);
    it->params = params.head;
    if (kind == STEM_I_KERNEL || kind == STEM_I_EXTERN)
        it->scalars = more.head;
    else
        it->results = more.head;
    return it;
}

static struct stem_item *with_body(struct stem_item *it, struct stem_stmt *body, struct stem_span block)
{
    it->body = body;
    it->end = (struct stem_span){block.end - 1, block.end};
    return it;
}
}

%token <ident> NAME "a name"
%token <expr> INT "an integer" FLOAT "a float"
%token <text> STRING "a string"
%token <span> CODE "a CUDA body in {{ }}"
%token <ident> MODULE "'module'" AS "'as'" OUT "'out'" WORKSPACE "'workspace'" GRID "'grid'" BLOCK "'block'"
%token <ident> SMEM "'smem'" WAITS "'waits'" FROM "'from'"
%token CONST "'const'" DIM "'dim'" LAYER "'layer'" MODEL "'model'" KERNEL "'kernel'" EXTERN "'extern'"
%token WEIGHT "'weight'" STATE "'state'" VIEW "'view'" ON "'on'" AFTER "'after'" WHEN "'when'" ELSE "'else'"
%token REPEAT "'repeat'" PRIORITY "'priority'" RESOURCE "'resource'" BREAK "'break'" EAGER "'eager'"
%token RETURN "'return'" IN "'in'" INOUT "'inout'" CONSUME "'consume'" RELEASE "'release'"
%token ARROW "'->'" DOTDOT "'..'" OR "'||'" AND "'&&'" EQ "'=='" NE "'!='" LE "'<='" GE "'>='"
%token YYEOF 0 "the end of the file"

%left OR
%left AND
%left EQ NE
%left '<' '>' LE GE
%left '+' '-'
%left '*' '/' '%'
%precedence UNARY

%type <ident> name instance_as
%type <expr> expr postfix primary maybe_default maybe_expr
%type <exprs> exprs shape
%type <args> args arg_list
%type <arg> arg
%type <subs> subs
%type <sub> sub
%type <mode> mode arg_mode
%type <type> type
%type <params> params param_list scalars results result_list weights
%type <param> param result weight
%type <targets> targets names indices
%type <mods> mods mod some_mods
%type <stmts> stmts block
%type <stmt> stmt when
%type <items> items item consts dims
%type <item> callable const dim
%type <clauses> clauses clause
%type <text> maybe_from

%%

file: items                             { p->ast->items = $items.head; }
    ;

items: %empty                           { $$ = (struct stem_item_list){0}; }
    | items item                        { $$ = $1; STEM_APPEND(&$$, $item.head); }
    | items MODULE name ';'             { $$ = $1; stem_set_module(p, $name, !$1.head, @2); }
    | items error item                  { $$ = $1; STEM_APPEND(&$$, $item.head); }
    | items error ';'                   { $$ = $1; }
    | items error '}'                   { $$ = $1; }
    | items error block                 { $$ = $1; }
    | items error CODE                  { $$ = $1; }
    ;

item: CONST consts ';'                  { $$ = $consts; }
    | DIM dims ';'                      { $$ = $dims; }
    | callable                          { $$ = (struct stem_item_list){$1, $1}; }
    ;

consts: const                           { $$ = (struct stem_item_list){$1, $1}; }
    | consts ',' const                  { $$ = $1; STEM_APPEND(&$$, $3); }
    ;

const: name '=' expr                    { $$ = stem_make_item(p, STEM_I_CONST, $name, @$); $$->value = $expr; }
    ;

dims: dim                               { $$ = (struct stem_item_list){$1, $1}; }
    | dims ',' dim                      { $$ = $1; STEM_APPEND(&$$, $3); }
    ;

dim: name IN expr[low] DOTDOT expr[high] maybe_default
                                        {
                                          $$ = stem_make_item(p, STEM_I_DIM, $name, @$);
                                          $$->low = $low;
                                          $$->high = $high;
                                          $$->value = $maybe_default;
                                        }
    ;

maybe_default: %empty                   { $$ = NULL; }
    | '=' expr                          { $$ = $expr; }
    ;

callable: LAYER name indices '(' params ')' results block
                                        {
                                          $$ = make_callable(p, STEM_I_LAYER, $name, $params, $results, @$);
                                          $$ = with_body($$, $block.head, @block);
                                          $$->indices = $indices.head;
                                        }
    | MODEL name '(' params ')' results block
                                        {
                                          $$ = make_callable(p, STEM_I_MODEL, $name, $params, $results, @$);
                                          $$ = with_body($$, $block.head, @block);
                                        }
    | KERNEL name '(' params scalars ')' clauses CODE
                                        {
                                          $$ = make_callable(p, STEM_I_KERNEL, $name, $params, $scalars, @$);
                                          $$->grid = $clauses.grid;
                                          $$->block = $clauses.block;
                                          $$->smem = $clauses.smem;
                                          $$->waits = $clauses.waits;
                                          $$->code = $CODE;
                                        }
    | EXTERN name '(' params scalars ')' maybe_from ';'
                                        {
                                          $$ = make_callable(p, STEM_I_EXTERN, $name, $params, $scalars, @$);
                                          $$->library = $maybe_from;
                                          $$->library_span = @maybe_from;
                                        }
    ;

indices: %empty                         { $$ = (struct stem_ast_target_list){0}; }
    | '[' names ']'                     { $$ = $names; }
    ;
maybe_from: %empty                      { $$ = NULL; }
    | FROM STRING                       { $$ = $STRING; }
    ;

clauses: %empty                         { $$ = (struct stem_clauses){0}; }
    | clauses clause                    { $$ = stem_merge_clauses(p, $1, $2, @2); }
    ;

clause: GRID '(' exprs ')'              { $$ = (struct stem_clauses){.grid = $exprs.head}; }
    | BLOCK '(' exprs ')'               { $$ = (struct stem_clauses){.block = $exprs.head}; }
    | SMEM '(' expr ')'                 { $$ = (struct stem_clauses){.smem = $expr}; }
    | WAITS                             { $$ = (struct stem_clauses){.waits = true}; }
    ;

params: %empty                          { $$ = (struct stem_ast_param_list){0}; }
    | param_list
    ;

param_list: param                       { $$ = (struct stem_ast_param_list){$1, $1}; }
    | param_list ',' param              { $$ = $1; STEM_APPEND(&$$, $3); }
    ;

param: mode name ':' type maybe_default { $$ = stem_make_param(p, $mode, $name, $type, $maybe_default, @$); }
    | name ':' type maybe_default       { $$ = stem_make_param(p, STEM_AST_NONE, $name, $type, $maybe_default, @$); }
    ;

mode: arg_mode
    | OUT                               { $$ = STEM_AST_OUT; }
    | WORKSPACE                         { $$ = STEM_AST_WORKSPACE; }
    ;

arg_mode: IN                            { $$ = STEM_AST_IN; }
    | INOUT                             { $$ = STEM_AST_INOUT; }
    | CONSUME                           { $$ = STEM_AST_CONSUME; }
    | RELEASE                           { $$ = STEM_AST_RELEASE; }
    ;

scalars: %empty                         { $$ = (struct stem_ast_param_list){0}; }
    | ';' param_list                    { $$ = $param_list; }
    ;

results: %empty                         { $$ = (struct stem_ast_param_list){0}; }
    | ARROW type                        {
                                          struct stem_ast_param *r = stem_make_param(
                                              p, STEM_AST_NONE, (struct stem_ident){0}, $type, NULL, @type);
                                          $$ = (struct stem_ast_param_list){r, r};
                                        }
    | ARROW '(' result_list ')'         { $$ = $result_list; }
    ;

result_list: result                     { $$ = (struct stem_ast_param_list){$1, $1}; }
    | result_list ',' result            { $$ = $1; STEM_APPEND(&$$, $3); }
    ;

result: name ':' type                   { $$ = stem_make_param(p, STEM_AST_NONE, $name, $type, NULL, @$); }
    ;

type: name                              { $$ = (struct stem_ast_type){$name, NULL, @$}; }
    | name '[' exprs ']'                { $$ = (struct stem_ast_type){$name, $exprs.head, @$}; }
    ;

block: '{' stmts '}'                    { $$ = $stmts; }
    | '{' stmts error '}'               { $$ = $stmts; }
    ;

stmts: %empty                           { $$ = (struct stem_stmt_list){0}; }
    | stmts stmt                        { $$ = $1; STEM_APPEND(&$$, $stmt); }
    ;

stmt: targets '=' expr mods ';'         { $$ = stem_make_bind(p, $targets.head, $expr, $mods, @$); }
    | expr mods ';'                     { $$ = stem_make_bind(p, NULL, $expr, $mods, @$); }
    | RETURN exprs ';'                  { $$ = stem_make_stmt(p, STEM_S_RETURN, @1, @$); $$->expr = $exprs.head; }
    | RETURN ';'                        { $$ = stem_make_stmt(p, STEM_S_RETURN, @1, @$); }
    | WEIGHT weights ';'                { $$ = stem_make_decl(p, STEM_S_WEIGHT, @1, $weights.head, @$); }
    | STATE param_list ';'              { $$ = stem_make_decl(p, STEM_S_STATE, @1, $param_list.head, @$); }
    | some_mods block                   {
                                          $$ = stem_make_block_stmt(p, STEM_S_REGION, @1, $block.head, NULL, @$);
                                          $$->mods = $some_mods;
                                        }
    | when
    | REPEAT expr instance_as block     {
                                          $$ = stem_make_block_stmt(p, STEM_S_REPEAT, @1, $block.head, NULL, @$);
                                          $$->expr = $expr;
                                          $$->index = $instance_as;
                                        }
    | BREAK ';'                         { $$ = stem_make_stmt(p, STEM_S_BREAK, @1, @$); }
    | EAGER block                       { $$ = stem_make_block_stmt(p, STEM_S_EAGER, @1, $block.head, NULL, @$); }
    | error ';'                         { $$ = NULL; }
    | error block                       { $$ = NULL; }
    ;

weights: weight                         { $$ = (struct stem_ast_param_list){$1, $1}; }
    | weights ',' weight                { $$ = $1; STEM_APPEND(&$$, $3); }
    ;
weight: param
    | name ':' type '=' STRING          { $$ = stem_make_weight(p, $name, $type, $STRING, @STRING, @$); }
    ;

when: WHEN '(' expr ')' block           {
                                          $$ = stem_make_block_stmt(p, STEM_S_WHEN, @1, $block.head, NULL, @$);
                                          $$->expr = $expr;
                                        }
    | WHEN '(' expr ')' block[yes] ELSE block[no]
                                        {
                                          $$ = stem_make_block_stmt(p, STEM_S_WHEN, @1, $yes.head, $no.head, @$);
                                          $$->expr = $expr;
                                          $$->has_else = true;
                                        }
    | WHEN '(' expr ')' block ELSE when[no]
                                        {
                                          $$ = stem_make_block_stmt(p, STEM_S_WHEN, @1, $block.head, $no, @$);
                                          $$->expr = $expr;
                                          $$->has_else = true;
                                        }
    ;

instance_as: %empty                     { $$ = (struct stem_ident){0}; }
    | AS name                           { $$ = $name; }
    ;

targets: name                           { struct stem_ast_target *t = stem_make_target(p, $name);
                                          $$ = (struct stem_ast_target_list){t, t}; }
    | targets ',' name                  { struct stem_ast_target *t = stem_make_target(p, $name);
                                          $$ = $1; STEM_APPEND(&$$, t); }
    ;

names: name                             { struct stem_ast_target *t = stem_make_target(p, $name);
                                          $$ = (struct stem_ast_target_list){t, t}; }
    | names ',' name                    { struct stem_ast_target *t = stem_make_target(p, $name);
                                          $$ = $1; STEM_APPEND(&$$, t); }
    ;

mods: %empty                            { $$ = (struct stem_mods){.span = @$}; }
    | some_mods
    ;

some_mods: mod
    | some_mods mod                     { $$ = stem_merge_mods(p, $1, $2); }
    ;

mod: ON name                            { $$ = (struct stem_mods){.on = $name, .span = @$}; }
    | AFTER names                       { $$ = (struct stem_mods){.after = $names.head, .after_last = $names.tail,
                                                                .span = @$}; }
    | PRIORITY expr                     { $$ = (struct stem_mods){.priority = $expr, .span = @$}; }
    | RESOURCE name                     { $$ = (struct stem_mods){.resource = $name, .span = @$}; }
    ;

exprs: expr                             { $$ = (struct stem_x_list){$1, $1}; }
    | exprs ',' expr                    { $$ = $1; STEM_APPEND(&$$, $3); }
    ;

shape: '[' exprs ']'                    { $$ = $exprs; }
    ;

expr: postfix
    | expr OR expr                      { $$ = stem_make_binary(p, STEM_X_OR, $1, $3); }
    | expr AND expr                     { $$ = stem_make_binary(p, STEM_X_AND, $1, $3); }
    | expr EQ expr                      { $$ = stem_make_binary(p, STEM_X_EQ, $1, $3); }
    | expr NE expr                      { $$ = stem_make_binary(p, STEM_X_NE, $1, $3); }
    | expr '<' expr                     { $$ = stem_make_binary(p, STEM_X_LT, $1, $3); }
    | expr '>' expr                     { $$ = stem_make_binary(p, STEM_X_GT, $1, $3); }
    | expr LE expr                      { $$ = stem_make_binary(p, STEM_X_LE, $1, $3); }
    | expr GE expr                      { $$ = stem_make_binary(p, STEM_X_GE, $1, $3); }
    | expr '+' expr                     { $$ = stem_make_binary(p, STEM_X_ADD, $1, $3); }
    | expr '-' expr                     { $$ = stem_make_binary(p, STEM_X_SUB, $1, $3); }
    | expr '*' expr                     { $$ = stem_make_binary(p, STEM_X_MUL, $1, $3); }
    | expr '/' expr                     { $$ = stem_make_binary(p, STEM_X_DIV, $1, $3); }
    | expr '%' expr                     { $$ = stem_make_binary(p, STEM_X_MOD, $1, $3); }
    | '-' expr %prec UNARY              { $$ = stem_make_unary(p, STEM_X_NEG, $2, @$); }
    | '!' expr %prec UNARY              { $$ = stem_make_unary(p, STEM_X_NOT, $2, @$); }
    ;

postfix: primary
    | postfix '[' subs ']'              { $$ = stem_make_slice(p, $1, $subs.head, @$); }
    | postfix '(' args ')'              { $$ = stem_make_call(p, $1, $args.head, @$); }
    ;

primary: INT
    | FLOAT
    | name                              { $$ = stem_make_name(p, $name); }
    | '(' expr ')'                      { $$ = $expr; }
    | VIEW '(' expr ',' shape ')'       { $$ = stem_make_view(p, $expr, $shape.head, @$); }
    ;

subs: sub                               { $$ = (struct stem_sub_list){$1, $1}; }
    | subs ',' sub                      { $$ = $1; STEM_APPEND(&$$, $3); }
    ;

sub: expr                               { $$ = stem_make_sub(p, false, $expr, NULL, @$); }
    | maybe_expr[low] ':' maybe_expr[high] { $$ = stem_make_sub(p, true, $low, $high, @$); }
    ;

maybe_expr: %empty                      { $$ = NULL; }
    | expr
    ;

args: %empty                            { $$ = (struct stem_arg_list){0}; }
    | arg_list
    | arg_list ','
    ;

arg_list: arg                           { $$ = (struct stem_arg_list){$1, $1}; }
    | arg_list ',' arg                  { $$ = $1; STEM_APPEND(&$$, $3); }
    ;

arg: expr                               { $$ = stem_make_arg(p, STEM_AST_NONE, (struct stem_ident){0}, $1, @$); }
    | arg_mode expr                     { $$ = stem_make_arg(p, $1, (struct stem_ident){0}, $2, @$); }
    | name '=' expr                     { $$ = stem_make_arg(p, STEM_AST_NONE, $1, $3, @$); }
    ;

/* Words that mean something only in one place are names everywhere else. */
name: NAME
    | MODULE
    | AS
    | OUT
    | WORKSPACE
    | GRID
    | BLOCK
    | SMEM
    | WAITS
    | FROM
    ;

%%

int stem_scan_lex(YYSTYPE *value, struct stem_span *at, void *scanner);

static int yylex(YYSTYPE *value, struct stem_span *at, struct stem_parse *p)
{
    p->last_name = p->this_name;
    p->last_end = p->this_end;
    int token = stem_scan_lex(value, at, p->scanner);
    p->this_name = token == NAME ? value->ident : (struct stem_ident){0};
    p->this_end = at->end;
    return token;
}

/* Called by the parser for an exhausted stack only; syntax errors go through yyreport_syntax_error. */
static void yyerror(const struct stem_span *at, struct stem_parse *p, const char *message)
{
    (void)message;
    stem_error(p->diags, STEM_E_TOO_DEEP, *at, "nested too deeply to be read");
}

static bool has(const bool *set, yysymbol_kind_t k)
{
    return set[k];
}

static void drop(bool *set, const yysymbol_kind_t *k, size_t n)
{
    for (size_t i = 0; i < n; i++)
        set[k[i]] = false;
}
#define DROP(set, ...)                                  \
    drop((set), (const yysymbol_kind_t[]){__VA_ARGS__}, \
         sizeof((yysymbol_kind_t[]){__VA_ARGS__}) / sizeof(yysymbol_kind_t))
#define CHAR(c) ((yysymbol_kind_t)YYTRANSLATE((int)(unsigned char)(c)))

/* Replaces groups of tokens by what they begin; returns the words for them. */
static uint32_t summarise(bool *set, const char **word)
{
    uint32_t n = 0;
    if (has(set, YYSYMBOL_LAYER)) {
        word[n++] = "a declaration";
        DROP(set, YYSYMBOL_MODULE, YYSYMBOL_CONST, YYSYMBOL_DIM, YYSYMBOL_LAYER, YYSYMBOL_MODEL, YYSYMBOL_KERNEL,
             YYSYMBOL_EXTERN, YYSYMBOL_YYEOF);
        return n;
    }
    if (has(set, YYSYMBOL_RETURN)) {
        word[n++] = "a statement";
        DROP(set, YYSYMBOL_RETURN, YYSYMBOL_WEIGHT, YYSYMBOL_STATE, YYSYMBOL_ON, YYSYMBOL_AFTER, YYSYMBOL_WHEN,
             YYSYMBOL_REPEAT, YYSYMBOL_PRIORITY, YYSYMBOL_RESOURCE, YYSYMBOL_BREAK, YYSYMBOL_EAGER, YYSYMBOL_INT);
    } else if (has(set, YYSYMBOL_INT)) {
        word[n++] = "an expression";
    }
    if (n)
        DROP(set, YYSYMBOL_INT, YYSYMBOL_FLOAT, YYSYMBOL_NAME, YYSYMBOL_VIEW, YYSYMBOL_IN, YYSYMBOL_INOUT,
             YYSYMBOL_CONSUME, YYSYMBOL_RELEASE, YYSYMBOL_MODULE, YYSYMBOL_AS, YYSYMBOL_OUT, YYSYMBOL_WORKSPACE,
             YYSYMBOL_GRID, YYSYMBOL_BLOCK, YYSYMBOL_SMEM, YYSYMBOL_WAITS, YYSYMBOL_FROM, CHAR('('), CHAR('-'),
             CHAR('!'));
    if (has(set, YYSYMBOL_NAME))
        DROP(set, YYSYMBOL_MODULE, YYSYMBOL_AS, YYSYMBOL_OUT, YYSYMBOL_WORKSPACE, YYSYMBOL_GRID, YYSYMBOL_BLOCK,
             YYSYMBOL_SMEM, YYSYMBOL_WAITS, YYSYMBOL_FROM);
    if (has(set, CHAR('*'))) {
        word[n++] = "an operator";
        for (const char *c = "+-*/%<>[("; *c; c++)
            set[CHAR(*c)] = false;
        DROP(set, YYSYMBOL_OR, YYSYMBOL_AND, YYSYMBOL_EQ, YYSYMBOL_NE, YYSYMBOL_LE, YYSYMBOL_GE);
        DROP(set, YYSYMBOL_ON, YYSYMBOL_AFTER, YYSYMBOL_PRIORITY, YYSYMBOL_RESOURCE);
    }
    return n;
}

/* The keyword that was probably meant: for the unexpected name itself, among those that could stand here, or for
 * the name before it, among all. */
static void suggest(struct stem_parse *p, const bool *expected)
{
    char word[YYNTOKENS][16];
    const char *list[YYNTOKENS];
    bool this_one = p->this_name.name.n != 0;
    for (int round = 0; round < 2; round++) {
        struct stem_ident id = round ? p->last_name : p->this_name;
        uint32_t m = 0;
        for (uint32_t i = 0; i < YYNTOKENS; i++) {
            const char *keyword = yysymbol_name((yysymbol_kind_t)i);
            size_t len = strlen(keyword);
            if (keyword[0] != '\'' || len < 5 || len >= 16 || (!round && !expected[i]))
                continue;
            memcpy(word[m], keyword + 1, len - 2);
            word[m][len - 2] = '\0';
            list[m] = word[m];
            m++;
        }
        if (!id.name.n || (!round && !this_one))
            continue;
        const char *near = stem_nearest(stem_sym_str(p->strings, id.name), list, m);
        if (!near || !strcmp(near, stem_sym_str(p->strings, id.name)))
            continue;
        stem_diag_help(p->diags, "did you mean '%s' instead of '%s'?", near, stem_sym_str(p->strings, id.name));
        return;
    }
}

static void expected_list(const bool *set, const char *const *summary, uint32_t n_summary, struct stem_out *o)
{
    const char *text[YYNTOKENS + 4];
    uint32_t n = 0;
    for (int k = 0; k < YYNTOKENS; k++)
        if (set[k])
            text[n++] = yysymbol_name((yysymbol_kind_t)k);
    for (uint32_t i = 0; i < n_summary; i++)
        text[n++] = summary[i];
    for (uint32_t i = 0; i < n; i++)
        stem_out_printf(o, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", text[i]);
}

/* A missing ';' is best shown where it is missing, not on the next line. */
static struct stem_span error_place(const struct stem_parse *p, struct stem_span at, bool semicolon)
{
    uint32_t end = p->last_end;
    if (!semicolon || end == 0 || at.begin < end)
        return at;
    if (stem_source_place(p->source, end).line == stem_source_place(p->source, at.begin).line)
        return at;
    return (struct stem_span){end - 1, end};
}

static int yyreport_syntax_error(const yypcontext_t *ctx, struct stem_parse *p)
{
    yysymbol_kind_t expected[YYNTOKENS];
    bool set[YYNTOKENS] = {false}, all[YYNTOKENS];
    if (stem_parse_said(p, *yypcontext_location(ctx)))
        return 0;
    int n = yypcontext_expected_tokens(ctx, expected, YYNTOKENS);
    for (int i = 0; i < n; i++)
        set[expected[i]] = true;
    memcpy(all, set, sizeof all);
    const char *summary[4];
    uint32_t n_summary = summarise(set, summary);
    struct stem_out list = {0};
    expected_list(set, summary, n_summary, &list);
    yysymbol_kind_t token = yypcontext_token(ctx);
    struct stem_span at = *yypcontext_location(ctx), place = error_place(p, at, all[CHAR(';')]);
    int len = (int)(at.end - at.begin);
    if (place.begin != at.begin)
        stem_error(p->diags, STEM_E_SYNTAX, place, "expected %s after this", stem_out_text(&list));
    else if (token != YYSYMBOL_YYEOF && token != YYSYMBOL_CODE && len <= 40)
        stem_error(p->diags, STEM_E_SYNTAX, at, "unexpected '%.*s': expected %s", len, p->source->text + at.begin,
                   stem_out_text(&list));
    else
        stem_error(p->diags, STEM_E_SYNTAX, at, "unexpected %s: expected %s",
                   token == YYSYMBOL_YYEOF    ? "end of the file"
                   : token == YYSYMBOL_YYEMPTY ? "text"
                                               : yysymbol_name(token),
                   stem_out_text(&list));
    stem_out_free(&list);
    struct stem_could could = {.name = all[YYSYMBOL_NAME] && !all[YYSYMBOL_INT], .expr = all[YYSYMBOL_INT], .item = all[YYSYMBOL_LAYER],
                               .colon = all[CHAR(':')], .bracket = all[CHAR(']')], .range = all[YYSYMBOL_DOTDOT] || all[YYSYMBOL_IN]};
    if (stem_parse_foreign(p, at, could))
        return 0;
    suggest(p, all);
    if (token == CHAR('{') && all[CHAR(';')])
        stem_diag_help(p->diags, "a ';' may be missing before the words in front of this block");
    return 0;
}

struct stem_ast *stem_parse(struct stem_arena *arena, struct stem_strtab *strings, const struct stem_source *source,
                            struct stem_diags *diags)
{
    struct stem_parse p = {.arena = arena, .strings = strings, .source = source, .diags = diags};
    p.ast = STEM_NEW(arena, struct stem_ast);
    p.ast->source = source;
    if (source->len > STEM_MAX_SOURCE) {
        stem_error(diags, STEM_E_FILE_TOO_BIG, (struct stem_span){0, 0}, "the file has %u bytes; at most %u are read",
                   source->len, STEM_MAX_SOURCE);
        return p.ast;
    }
    if (!stem_scan_open(&p))
        stem_out_of_memory();
    yyparse(&p);
    stem_scan_close(&p);
    return p.ast;
}
