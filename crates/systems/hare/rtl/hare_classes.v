// To which classes each byte belongs: a table of 256 entries, read by every lane.
module hare_classes #(parameter W = 4, parameter C = 8) (
    input  wire           clk,
    input  wire           cfg_valid,
    input  wire [31:0]    cfg_addr,
    input  wire [31:0]    cfg_data,
    input  wire [8*W-1:0] text,
    output wire [C*W-1:0] classes
);
    wire write = cfg_valid && cfg_addr[31:28] == 1;
    genvar lane;
    generate
        for (lane = 0; lane < W; lane = lane + 1) begin : copy
            reg [C-1:0] members [0:255];
            reg [C-1:0] found;
            always @(posedge clk) begin
                if (write) members[cfg_addr[23:16]] <= cfg_data[C-1:0];
                found <= members[text[8*lane +: 8]];
            end
            assign classes[C*lane +: C] = found;
        end
    endgenerate
endmodule
