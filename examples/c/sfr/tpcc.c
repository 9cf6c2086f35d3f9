/*
 * TPCC's transaction New Order, on ten districts and 1000 items per warehouse. The order's district is
 * locked throughout, each item's stock while it is changed and the order's line is written. So an order
 * is several SFRs, and after a crash the last order of a district may have fewer lines than it wants:
 * `filled` says how many. Stock and lines always agree, and an order that another one followed is
 * complete.
 */
#include "sfr.h"

#define DISTRICTS 10
#define ITEMS 1000
#define LINES_MAX 15

struct stock {
    uint64_t quantity, ytd, order_count;
};

struct line {
    uint64_t item, quantity, amount;
    uint64_t information[];
};

struct order {
    struct order *before;
    uint64_t id, customer, lines, filled;
    uint64_t line[];
};

struct district {
    uint64_t next_order;
    struct order *last;
    uint64_t pad[6];
};

struct warehouse {
    struct district district[DISTRICTS];
    struct stock stock[ITEMS];
};

static struct lock *district_locks, *stock_locks;

static uint64_t line_words(void)
{
    return sizeof(struct line) / 8 + options.stores;
}

static uint64_t order_bytes(uint64_t lines)
{
    return sizeof(struct order) + lines * line_words() * 8;
}

static uint64_t bytes(void)
{
    uint64_t orders = (options.ops + 1000) * order_bytes(LINES_MAX);
    return (64u << 20) + 2 * (options.size * sizeof(struct warehouse) + orders);
}

static struct warehouse *warehouse(uint64_t number)
{
    return (struct warehouse *)root->data + number;
}

static struct line *line_of(struct order *order, uint64_t number)
{
    return (struct line *)(order->line + number * line_words());
}

static void setup(void)
{
    root->data = block_zeros(options.size * sizeof(struct warehouse));
    for (uint64_t w = 0; w < options.size; w++) {
        for (uint64_t d = 0; d < DISTRICTS; d++)
            warehouse(w)->district[d].next_order = 1;
        for (uint64_t i = 0; i < ITEMS; i++) {
            warehouse(w)->stock[i].quantity = 10 + mix(i) % 91;
            if (i % 16 == 0)
                step();
        }
    }
}

static void start(void)
{
    district_locks = locks_new(options.size * DISTRICTS);
    stock_locks = locks_new(options.size * ITEMS);
}

static uint64_t price(uint64_t item)
{
    return 100 + mix(item) % 9901;
}

static void order_line(struct worker *worker, struct warehouse *from, struct order *order, uint64_t number)
{
    uint64_t item = random_below(worker, ITEMS), quantity = 1 + random_below(worker, 10);
    struct lock *of = &stock_locks[(uint64_t)(from - warehouse(0)) * ITEMS + item];
    struct stock *stock = &from->stock[item];
    struct line *line = line_of(order, number);
    lock(of);
    stock->quantity += stock->quantity >= quantity + 10 ? -quantity : 91 - quantity;
    stock->ytd += quantity;
    stock->order_count++;
    line->item = item;
    line->quantity = quantity;
    line->amount = quantity * price(item);
    payload_store(line->information, item, order->id);
    order->filled = number + 1;
    /* An operation counts when it is whole. */
    if (number + 1 == order->lines)
        counted(worker);
    unlock(of);
}

static void operate(struct worker *worker)
{
    uint64_t w = random_below(worker, options.size), d = random_below(worker, DISTRICTS);
    uint64_t lines = 5 + random_below(worker, LINES_MAX - 4);
    struct district *district = &warehouse(w)->district[d];
    lock(&district_locks[w * DISTRICTS + d]);
    /* One that a crash cut short is completed first. */
    for (struct order *cut = district->last; cut && cut->filled < cut->lines;)
        order_line(worker, warehouse(w), cut, cut->filled);
    struct order *order = block_new(order_bytes(lines));
    order->before = district->last;
    order->id = district->next_order++;
    order->customer = random_below(worker, 3000);
    order->lines = lines;
    order->filled = 0;
    district->last = order;
    for (uint64_t i = 0; i < lines; i++)
        order_line(worker, warehouse(w), order, i);
    unlock(&district_locks[w * DISTRICTS + d]);
}

/* Takes an order's lines off the stock that they came from. */
static const char *verify_lines(struct order *order, struct stock *sold, uint64_t d)
{
    for (uint64_t i = 0; i < order->filled; i++) {
        const struct line *line = line_of(order, i);
        if (line->item >= ITEMS || line->amount != line->quantity * price(line->item))
            return wrong("district %" PRIu64 ", order %" PRIu64 ": line %" PRIu64 " is torn", d, order->id,
                         i);
        unsigned torn = payload_torn(line->information, line->item);
        if (torn < options.stores || line->information[0] != order->id)
            return wrong("district %" PRIu64 ", order %" PRIu64 ": line %" PRIu64 " is of another", d,
                         order->id, i);
        sold[line->item].ytd += line->quantity;
        sold[line->item].order_count++;
    }
    return NULL;
}

static const char *verify_district(const struct district *district, uint64_t d, struct stock *sold,
                                   uint64_t *whole)
{
    uint64_t id = district->next_order;
    for (struct order *order = district->last; order; order = order->before) {
        const char *bad;
        if (!in_pool(order, order_bytes(1)) || order->lines > LINES_MAX || order->lines < 5)
            return wrong("district %" PRIu64 ": before order %" PRIu64 " stands none", d, id);
        if (order->id != --id)
            return wrong("district %" PRIu64 ": order %" PRIu64 " has the number %" PRIu64, d, id, order->id);
        if (order->filled > order->lines || (order->filled < order->lines && order != district->last))
            return wrong("district %" PRIu64 ", order %" PRIu64 ": %" PRIu64 " lines of %" PRIu64, d, id,
                         order->filled,
                         order->lines);
        *whole += order->filled == order->lines;
        if ((bad = verify_lines(order, sold, d)))
            return bad;
    }
    return id == 1 ? NULL : wrong("district %" PRIu64 ": orders before %" PRIu64 " are lost", d, id);
}

static const char *verify(void)
{
    uint64_t whole = 0;
    if (!in_pool(root->data, options.size * sizeof(struct warehouse)))
        return wrong("there is no warehouse");
    for (uint64_t w = 0; w < options.size; w++) {
        struct stock sold[ITEMS] = {{0, 0, 0}};
        for (uint64_t d = 0; d < DISTRICTS; d++) {
            const char *bad = verify_district(&warehouse(w)->district[d], w * DISTRICTS + d, sold, &whole);
            if (bad)
                return bad;
        }
        for (uint64_t i = 0; i < ITEMS; i++) {
            const struct stock *stock = &warehouse(w)->stock[i];
            if (stock->ytd != sold[i].ytd || stock->order_count != sold[i].order_count)
                return wrong("warehouse %" PRIu64 ", item %" PRIu64 ": stock and orders differ", w, i);
            if ((stock->quantity + stock->ytd - 10 - mix(i) % 91) % 91)
                return wrong("warehouse %" PRIu64 ", item %" PRIu64 ": %" PRIu64 " are left", w, i,
                             stock->quantity);
        }
    }
    if (root->counted && whole != counted_in_all())
        return wrong("%" PRIu64 " operations counted, %" PRIu64 " done", counted_in_all(), whole);
    return NULL;
}

int main(int count, char **arguments)
{
    static const struct benchmark tpcc = {"tpcc", "warehouses", 4, bytes, setup, start, operate, verify};
    return sfr_main(&tpcc, count, arguments);
}
