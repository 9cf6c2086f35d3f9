// Where a slot has conditions, they hold behind the byte. In the start cycle only gates can match, at the one
// boundary that it stands for.
module hare_gate #(parameter W = 4, parameter S = 16, parameter K = 3) (
    input  wire            clk,
    input  wire            reset,
    input  wire            cfg_valid,
    input  wire [31:0]     cfg_addr,
    input  wire [31:0]     cfg_data,
    input  wire            in_valid,
    input  wire            in_start,
    input  wire            in_last,
    input  wire [K-1:0]    in_count,
    input  wire [12*W-1:0] in_holds,
    input  wire [S*W-1:0]  in_vector,
    output reg             out_valid,
    output reg             out_start,
    output reg             out_last,
    output reg  [K-1:0]    out_count,
    output reg  [S*W-1:0]  out_bus
);
    wire write = cfg_valid && cfg_addr[31:28] == 3 && cfg_addr[15:4] == 0;
    genvar s, i;
    generate
        for (s = 0; s < S; s = s + 1) begin : slot
            reg        is_gate;
            reg [11:0] looks;
            always @(posedge clk)
                if (write && cfg_addr[27:16] == s) {looks, is_gate} <= {cfg_data[27:16], cfg_data[7:0] == 0};
            for (i = 0; i < W; i = i + 1) begin : byte_
                wire holds = &(~looks | in_holds[12*i +: 12]);
                wire here  = !in_start || (is_gate && i == W - 1);
                always @(posedge clk) out_bus[s*W+i] <= in_vector[s*W+i] && holds && here;
            end
        end
    endgenerate
    always @(posedge clk) begin
        out_valid <= in_valid && !reset;
        out_start <= in_start;
        out_last  <= in_last;
        out_count <= in_count;
    end
endmodule
