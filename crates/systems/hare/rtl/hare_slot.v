// The reduction unit of slot N, three cycles: gather what precedes the slot, look back by its length, then match
// and count. A slot with a bit vector takes a fourth, in which the parts of the vector meet.
//
// Fields of table 3:
//   0: conditions[27:16], repeats[8], length[7:0] (0: a gate)
//   1: bounds: max[25:16] (1023: none), min[9:0]
//   2: whether a match may begin here [0]
//   16 + k: slots 32k to 32k + 31 that may precede this one
//   64 + k: ages 32k + 1 to 32k + 32 at which the bit vector matches
//   2[1]: whether the bit vector decides
module hare_slot #(
    parameter W = 4,
    parameter S = 16,
    parameter K = 3,
    parameter N = 0,
    parameter VECTOR = 0,
    parameter A = 256
) (
    input  wire           clk,
    input  wire           reset,
    input  wire           cfg_valid,
    input  wire [31:0]    cfg_addr,
    input  wire [31:0]    cfg_data,
    input  wire           in_valid,
    input  wire           in_start,
    input  wire           in_last,
    input  wire [K-1:0]   in_count,
    input  wire [S*W-1:0] in_bus,
    output reg            out_valid,
    output reg            out_start,
    output reg            out_last,
    output reg  [K-1:0]   out_count,
    output reg  [S*W-1:0] out_bus
);
    wire write = cfg_valid && cfg_addr[31:28] == 3 && cfg_addr[27:16] == N;
    wire [11:0] field = cfg_addr[15:4];

    reg [K-1:0] length;
    reg         repeats, begins, by_vector;
    reg [9:0]   min, max;
    // A slot for itself, so that slot 0 has a vector of at least one bit.
    reg [N:0]   preds;
    integer p;
    always @(posedge clk) if (write) begin
        if (field == 0) {repeats, length} <= {cfg_data[8], cfg_data[K-1:0]};
        if (field == 1) {max, min} <= {cfg_data[25:16], cfg_data[9:0]};
        if (field == 2) {by_vector, begins} <= cfg_data[1:0];
        for (p = 0; p < N; p = p + 1)
            if (field == 16 + p / 32) preds[p] <= cfg_data[p % 32];
        preds[N] <= 0;
    end

    // First cycle: where a predecessor ends. A match may begin behind every byte, and at the last position
    // of the start cycle.
    reg           a_valid, a_start, a_last;
    reg [K-1:0]   a_count;
    reg [S*W-1:0] a_bus;
    reg [W-1:0]   a_ends;
    integer i, q;
    reg [W-1:0] ends;
    always @* begin
        for (i = 0; i < W; i = i + 1) begin
            ends[i] = begins && (!in_start || i == W - 1);
            for (q = 0; q < N; q = q + 1) ends[i] = ends[i] || (preds[q] && in_bus[q*W+i]);
        end
    end
    always @(posedge clk) begin
        a_valid <= in_valid && !reset;
        a_start <= in_start;
        a_last  <= in_last;
        a_count <= in_count;
        a_bus   <= in_bus;
        a_ends  <= ends;
    end

    // Second cycle. `enabled[i]`: what precedes ended `length` bytes before.
    reg  [W-1:0] prior;
    wire [W-1:0] previous = a_start ? {W{1'b0}} : prior;
    wire [2*W-1:0] history = {a_ends, previous};
    wire [2*W-1:0] shifted = history >> (W[K-1:0] - length);
    reg           c_valid, c_start, c_last;
    reg [K-1:0]   c_count;
    reg [S*W-1:0] c_bus;
    reg [W-1:0]   enabled;
    always @(posedge clk) begin
        if (a_valid) prior <= a_ends;
        c_valid <= a_valid && !reset;
        c_start <= a_start;
        c_last  <= a_last;
        c_count <= a_count;
        c_bus   <= a_bus;
        enabled <= shifted[W-1:0];
    end

    // Third cycle.
    wire [W-1:0] imv = c_bus[N*W +: W];

    // Ages of the oldest and the youngest run at the start of the window, if they are alive, and of those that
    // begin within it, 0 for none.
    // The comparisons of ages look at no input: the registers are all that they need.
    localparam TOP = 10'd1022 - W;
    reg  [9:0] oldest, youngest;
    reg        old_alive, young_alive;
    wire [W-1:0] old_enough, young_few;
    genvar c;
    generate
        for (c = 0; c < W; c = c + 1) begin : compare
            assign old_enough[c] = oldest + c + 1 >= min;
            assign young_few[c]  = max == 10'd1023 || youngest + c + 1 <= max;
        end
    endgenerate
    reg        old_kept, young_kept;
    reg  [K-1:0] old_new, young_new;
    reg  [W-1:0] counted;
    reg        enough, few;
    integer t;
    always @* begin
        old_kept = old_alive && !c_start;
        young_kept = young_alive && !c_start;
        old_new = 0;
        young_new = 0;
        for (t = 0; t < W; t = t + 1) begin
            if (!imv[t]) begin
                old_kept = 0;
                young_kept = 0;
                old_new = 0;
                young_new = 0;
            end else begin
                if (!old_kept && (enabled[t] || old_new != 0)) old_new = old_new + 1'b1;
                if (enabled[t]) begin
                    young_kept = 0;
                    young_new = 1;
                end else if (young_new != 0) young_new = young_new + 1'b1;
            end
            enough = old_kept ? old_enough[t] : old_new != 0 && old_new >= min;
            few = young_kept ? young_few[t] : max == 10'd1023 || young_new <= max;
            counted[t] = imv[t] && enough && few;
        end
    end
    always @(posedge clk) if (c_valid) begin
        oldest   <= old_kept ? (oldest > TOP ? TOP + W : oldest + W) : {{10-K{1'b0}}, old_new};
        youngest <= young_kept ? (youngest > TOP ? TOP + W : youngest + W) : {{10-K{1'b0}}, young_new};
        old_alive   <= old_kept || old_new != 0;
        young_alive <= young_kept || young_new != 0;
    end

    // A bit for the age of each run. The ages that match are gathered sixteen at a time in the third cycle and
    // all together in the fourth: one OR of them all is the longest path of the design.
    reg           b_valid, b_start, b_last;
    reg [K-1:0]   b_count;
    reg [S*W-1:0] b_bus;
    wire [W-1:0]  hits;
    generate
        if (VECTOR) begin : vector
            localparam PARTS = (A + 15) / 16;
            reg [A-1:0] ages, wanted;
            integer k;
            always @(posedge clk) if (write)
                for (k = 0; k < A; k = k + 1)
                    if (field == 64 + k / 32) wanted[k] <= cfg_data[k % 32];
            // Runs from before the window go on while every byte is of the class, but not into another text;
            // those that begin within it have ages up to W.
            reg          kept;
            reg  [W-1:0] fresh, found, going;
            reg  [PARTS*W-1:0] parts;
            reg  [16*PARTS-1:0] matching;
            integer u, g;
            always @* begin
                kept = !c_start;
                fresh = 0;
                for (u = 0; u < W; u = u + 1) begin
                    kept = kept && imv[u];
                    fresh = imv[u] ? {fresh, enabled[u]} : {W{1'b0}};
                    found[u] = |(fresh & wanted[W-1:0]);
                    going[u] = kept;
                    matching = (ages << (u + 1)) & wanted;
                    for (g = 0; g < PARTS; g = g + 1) parts[g*W+u] = |matching[16*g +: 16];
                end
            end
            always @(posedge clk) if (c_valid)
                ages <= (kept ? ages << W : {A{1'b0}}) | {{A-W{1'b0}}, fresh};

            reg [PARTS*W-1:0] b_parts;
            reg [W-1:0]       b_found, b_going, b_others;
            always @(posedge clk) begin
                b_valid  <= c_valid && !reset;
                b_start  <= c_start;
                b_last   <= c_last;
                b_count  <= c_count;
                b_bus    <= c_bus;
                b_parts  <= parts;
                b_found  <= found;
                b_going  <= going;
                b_others <= !repeats ? imv & enabled : counted;
            end
            reg [W-1:0] aged;
            integer v, h;
            always @* begin
                for (v = 0; v < W; v = v + 1) begin
                    aged[v] = 0;
                    for (h = 0; h < PARTS; h = h + 1) aged[v] = aged[v] || b_parts[h*W+v];
                    aged[v] = b_found[v] || (b_going[v] && aged[v]);
                end
            end
            assign hits = repeats && by_vector ? aged : b_others;
        end else begin : none
            always @* begin
                b_valid = c_valid;
                b_start = c_start;
                b_last  = c_last;
                b_count = c_count;
                b_bus   = c_bus;
            end
            assign hits = !repeats ? imv & enabled : by_vector ? {W{1'b0}} : counted;
        end
    endgenerate

    always @(posedge clk) begin
        out_valid <= b_valid && !reset;
        out_start <= b_start;
        out_last  <= b_last;
        out_count <= b_count;
        out_bus   <= b_bus;
        out_bus[N*W +: W] <= hits;
    end
endmodule
