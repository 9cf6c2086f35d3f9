// HARE: W bytes of text a cycle through all loaded expressions, without a stall.
//
// Text: one cycle with `in_start` before each text, then windows of W bytes; lane 0 is the first byte. The
// last window has `in_last` and says in `in_count` how many of its bytes are text; for an empty text the
// start cycle has `in_last`. Cycles without `in_valid` may stand anywhere.
//
// Reports: a bit per slot and byte: an expression that ends in that slot matches up to that byte.
//
// Tables are loaded over `cfg_*`, a word a cycle: cfg_addr is {table[3:0], a[11:0], b[11:0], c[3:0]}.
//   table 1: classes of byte a
//   table 2: automaton a (lane * (8 + C) + number), state c, word b of its vector
//   table 3: slot a, field b (see hare_slot.v)
module hare #(
    parameter W = 4,        // bytes a cycle
    parameter S = 16,       // slots
    parameter C = 8,        // character classes
    parameter V = 8,        // every Vth slot has a bit vector
    parameter A = 256,      // ages that a bit vector holds
    parameter K = 3         // bits of a number from 0 to W
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
    input  wire [8*W-1:0] in_text,
    output wire           out_valid,
    output wire           out_start,
    output wire           out_last,
    output wire [S*W-1:0] out_match
);
    // 1: a window waits for the byte behind it.
    wire           at_valid, at_start, at_last;
    wire [K-1:0]   at_count;
    wire [8*W-1:0] at_text;
    wire [12*W-1:0] at_holds;
    hare_boundary #(.W(W), .K(K)) boundary (
        .clk(clk), .reset(reset),
        .in_valid(in_valid), .in_start(in_start), .in_last(in_last), .in_count(in_count), .in_text(in_text),
        .out_valid(at_valid), .out_start(at_start), .out_last(at_last), .out_count(at_count),
        .out_text(at_text), .out_holds(at_holds));

    // 2, 3: bytes get their classes.
    wire [C*W-1:0] classes;
    hare_classes #(.W(W), .C(C)) class_unit (
        .clk(clk), .cfg_valid(cfg_valid), .cfg_addr(cfg_addr), .cfg_data(cfg_data),
        .text(at_text), .classes(classes));
    // A table's output takes half of a cycle, so its way to the automata is a cycle of its own.
    reg            ta_valid, ta_start, ta_last, cl_valid, cl_start, cl_last;
    reg  [K-1:0]   ta_count, cl_count;
    reg  [8*W-1:0] ta_text, cl_text;
    reg  [12*W-1:0] ta_holds, cl_holds;
    reg  [C*W-1:0] cl_classes;
    always @(posedge clk) begin
        ta_valid <= at_valid && !reset;
        ta_start <= at_start;
        ta_last  <= at_last;
        ta_count <= at_count;
        ta_text  <= at_text;
        ta_holds <= at_holds;
        cl_valid <= ta_valid && !reset;
        cl_start <= ta_start;
        cl_last  <= ta_last;
        cl_count <= ta_count;
        cl_text  <= ta_text;
        cl_holds <= ta_holds;
        cl_classes <= classes;
    end

    // 4, 5: automata, and what the vectors of all of them have in common.
    wire           im_valid, im_start, im_last;
    wire [K-1:0]   im_count;
    wire [12*W-1:0] im_holds;
    wire [S*W-1:0] im_vector;
    hare_automata #(.W(W), .S(S), .C(C), .K(K)) automata (
        .clk(clk), .reset(reset), .cfg_valid(cfg_valid), .cfg_addr(cfg_addr), .cfg_data(cfg_data),
        .in_valid(cl_valid), .in_start(cl_start), .in_last(cl_last), .in_count(cl_count), .in_text(cl_text),
        .in_classes(cl_classes), .in_holds(cl_holds),
        .out_valid(im_valid), .out_start(im_start), .out_last(im_last), .out_count(im_count),
        .out_holds(im_holds), .out_vector(im_vector));

    // 6: conditions; from here on an entry of the bus is what the slot's component matches.
    // Then slot by slot: entry n becomes where the expression matches up to slot n.
    wire [S:0]     sl_valid, sl_start, sl_last;
    wire [K-1:0]   sl_count [0:S];
    wire [S*W-1:0] sl_bus   [0:S];
    hare_gate #(.W(W), .S(S), .K(K)) gate (
        .clk(clk), .reset(reset), .cfg_valid(cfg_valid), .cfg_addr(cfg_addr), .cfg_data(cfg_data),
        .in_valid(im_valid), .in_start(im_start), .in_last(im_last), .in_count(im_count),
        .in_holds(im_holds), .in_vector(im_vector),
        .out_valid(sl_valid[0]), .out_start(sl_start[0]), .out_last(sl_last[0]), .out_count(sl_count[0]),
        .out_bus(sl_bus[0]));
    genvar n;
    generate
        for (n = 0; n < S; n = n + 1) begin : slot
            hare_slot #(.W(W), .S(S), .K(K), .N(n), .VECTOR(n % V == V - 1), .A(A)) unit (
                .clk(clk), .reset(reset), .cfg_valid(cfg_valid), .cfg_addr(cfg_addr), .cfg_data(cfg_data),
                .in_valid(sl_valid[n]), .in_start(sl_start[n]), .in_last(sl_last[n]), .in_count(sl_count[n]),
                .in_bus(sl_bus[n]),
                .out_valid(sl_valid[n+1]), .out_start(sl_start[n+1]), .out_last(sl_last[n+1]),
                .out_count(sl_count[n+1]), .out_bus(sl_bus[n+1]));
        end
    endgenerate

    // Bytes behind the text match nothing.
    genvar s, i;
    generate
        for (s = 0; s < S; s = s + 1) begin : report_slot
            for (i = 0; i < W; i = i + 1) begin : report_byte
                assign out_match[s*W+i] = sl_bus[S][s*W+i] && i < sl_count[S] && !sl_start[S];
            end
        end
    endgenerate
    assign out_valid = sl_valid[S];
    assign out_start = sl_start[S];
    assign out_last  = sl_last[S];
endmodule
