// Conditions on the boundary behind each byte. A window waits until the next one shows its first byte.
module hare_boundary #(parameter W = 4, parameter K = 3) (
    input  wire            clk,
    input  wire            reset,
    input  wire            in_valid,
    input  wire            in_start,
    input  wire            in_last,
    input  wire [K-1:0]    in_count,
    input  wire [8*W-1:0]  in_text,
    output reg             out_valid,
    output reg             out_start,
    output reg             out_last,
    output reg  [K-1:0]    out_count,
    output reg  [8*W-1:0]  out_text,
    output reg  [12*W-1:0] out_holds
);
    function is_word(input [7:0] b);
        is_word = (b >= "0" && b <= "9") || (b >= "A" && b <= "Z") || (b >= "a" && b <= "z") || b == "_";
    endfunction

    // The window that waits.
    reg           held, start, last;
    reg [K-1:0]   count;
    reg [8*W-1:0] text;

    wire leaves = held && (last || in_valid);
    // Behind the last byte of a full window stands the first byte of the next one.
    wire next_is_text = !last && in_count != 0;

    integer i;
    reg [7:0] prior, behind;
    reg       has_before, has_after, left, right;
    reg [12*W-1:0] holds;
    always @* begin
        holds = 0;
        for (i = 0; i < W; i = i + 1) begin
            // The start cycle has the boundary before the first byte, in its last position.
            has_before = !start;
            prior     = text[8*i +: 8];
            if (i == W - 1) begin
                has_after = next_is_text;
                behind     = in_text[7:0];
            end else begin
                has_after = i + 1 < count;
                behind     = text[8*((i+1)%W) +: 8];
            end
            left  = has_before && is_word(prior);
            right = has_after && is_word(behind);
            holds[12*i +: 12] = {
                !right,
                !left,
                left && !right,
                !left && right,
                left == right,
                left != right,
                !has_after || behind == 8'h0d || (behind == 8'h0a && !(has_before && prior == 8'h0d)),
                !has_before || prior == 8'h0a || (prior == 8'h0d && !(has_after && behind == 8'h0a)),
                !has_after || behind == 8'h0a,
                !has_before || prior == 8'h0a,
                !has_after,
                !has_before};
        end
    end

    always @(posedge clk) begin
        out_valid <= leaves && !reset;
        out_start <= start;
        out_last  <= last;
        out_count <= count;
        out_text  <= text;
        out_holds <= holds;
        if (reset) held <= 0;
        else if (in_valid) held <= 1;
        else if (last) held <= 0;
        if (in_valid) begin
            start <= in_start;
            last  <= in_last;
            count <= in_count;
            text  <= in_text;
        end
    end
endmodule
