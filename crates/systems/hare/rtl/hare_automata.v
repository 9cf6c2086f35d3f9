// Bit-split automata: one for each of the 8 + C bits of each lane. A padded component spans two windows at
// most, so a state is the bit in the previous window and the bit in this one. Each state has a vector with a
// bit per slot and end position; what all vectors have in common matches.
module hare_automata #(parameter W = 4, parameter S = 16, parameter C = 8, parameter K = 3) (
    input  wire            clk,
    input  wire            reset,
    input  wire            cfg_valid,
    input  wire [31:0]     cfg_addr,
    input  wire [31:0]     cfg_data,
    input  wire            in_valid,
    input  wire            in_start,
    input  wire            in_last,
    input  wire [K-1:0]    in_count,
    input  wire [8*W-1:0]  in_text,
    input  wire [C*W-1:0]  in_classes,
    input  wire [12*W-1:0] in_holds,
    output reg             out_valid,
    output reg             out_start,
    output reg             out_last,
    output reg  [K-1:0]    out_count,
    output reg  [12*W-1:0] out_holds,
    output reg  [S*W-1:0]  out_vector
);
    localparam B = 8 + C;
    localparam WORDS = (S * W + 31) / 32;

    wire write = cfg_valid && cfg_addr[31:28] == 2;
    wire [32*WORDS-1:0] lanes [0:W-1];
    genvar lane, bit_, word;
    generate
        for (lane = 0; lane < W; lane = lane + 1) begin : of_lane
            wire [B-1:0] now = {in_classes[C*lane +: C], in_text[8*lane +: 8]};
            reg  [B-1:0] previous;
            always @(posedge clk) if (in_valid) previous <= now;
            wire [32*WORDS-1:0] vectors [0:B-1];
            for (bit_ = 0; bit_ < B; bit_ = bit_ + 1) begin : of_bit
                wire mine = write && cfg_addr[27:16] == lane * B + bit_;
                wire [1:0] state = {previous[bit_], now[bit_]};
                for (word = 0; word < WORDS; word = word + 1) begin : of_word
                    reg [31:0] table_ [0:3];
                    always @(posedge clk)
                        if (mine && cfg_addr[15:4] == word) table_[cfg_addr[1:0]] <= cfg_data;
                    assign vectors[bit_][32*word +: 32] = table_[state];
                end
            end
            // Intersected per lane, then over the lanes.
            integer b;
            reg [32*WORDS-1:0] common, kept;
            always @* begin
                common = {32*WORDS{1'b1}};
                for (b = 0; b < B; b = b + 1) common = common & vectors[b];
            end
            always @(posedge clk) kept <= common;
            assign lanes[lane] = kept;
        end
    endgenerate

    reg            mid_valid, mid_start, mid_last;
    reg [K-1:0]    mid_count;
    reg [12*W-1:0] mid_holds;
    integer l;
    reg [32*WORDS-1:0] all;
    always @* begin
        all = {32*WORDS{1'b1}};
        for (l = 0; l < W; l = l + 1) all = all & lanes[l];
    end
    always @(posedge clk) begin
        mid_valid  <= in_valid && !reset;
        mid_start  <= in_start;
        mid_last   <= in_last;
        mid_count  <= in_count;
        mid_holds  <= in_holds;
        out_valid  <= mid_valid && !reset;
        out_start  <= mid_start;
        out_last   <= mid_last;
        out_count  <= mid_count;
        out_holds  <= mid_holds;
        out_vector <= all[S*W-1:0];
    end
endmodule
