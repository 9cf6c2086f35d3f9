// Loads tables, feeds windows, prints what comes out, a line per cycle. Numbers in hexadecimal.
//   +tables=FILE: lines of address and data
//   +text=FILE: a line per cycle: valid, start, last, count, text
`timescale 1ns / 1ps
module hare_bench;
    parameter W = 4;
    parameter S = 16;
    parameter C = 8;
    parameter V = 8;
    parameter K = 3;

    reg           clk = 0, reset = 1, cfg_valid = 0;
    reg  [31:0]   cfg_addr = 0, cfg_data = 0;
    reg           in_valid = 0, in_start = 0, in_last = 0;
    reg  [K-1:0]  in_count = 0;
    reg  [8*W-1:0] in_text = 0;
    wire          out_valid, out_start, out_last;
    wire [S*W-1:0] out_match;
    hare #(.W(W), .S(S), .C(C), .V(V), .K(K)) unit (
        .clk(clk), .reset(reset), .cfg_valid(cfg_valid), .cfg_addr(cfg_addr), .cfg_data(cfg_data),
        .in_valid(in_valid), .in_start(in_start), .in_last(in_last), .in_count(in_count), .in_text(in_text),
        .out_valid(out_valid), .out_start(out_start), .out_last(out_last), .out_match(out_match));

    always #5 clk = !clk;

    integer file, got, drain;
    reg [8*256-1:0] name;
    reg [31:0] word_addr, word_data;
    reg [7:0] f_valid, f_start, f_last, f_count;
    reg [8*W-1:0] f_text;
    initial begin
        repeat (4) @(negedge clk);
        reset = 0;
        if (!$value$plusargs("tables=%s", name)) $finish;
        file = $fopen(name, "r");
        got = $fscanf(file, "%h %h", word_addr, word_data);
        while (got == 2) begin
            cfg_valid = 1;
            cfg_addr = word_addr;
            cfg_data = word_data;
            @(negedge clk);
            got = $fscanf(file, "%h %h", word_addr, word_data);
        end
        $fclose(file);
        cfg_valid = 0;
        if (!$value$plusargs("text=%s", name)) $finish;
        file = $fopen(name, "r");
        got = $fscanf(file, "%h %h %h %h %h", f_valid, f_start, f_last, f_count, f_text);
        while (got == 5) begin
            in_valid = f_valid[0];
            in_start = f_start[0];
            in_last = f_last[0];
            in_count = f_count[K-1:0];
            in_text = f_text;
            @(negedge clk);
            $display("%h %h %h %h", out_valid, out_start, out_last, out_match);
            got = $fscanf(file, "%h %h %h %h %h", f_valid, f_start, f_last, f_count, f_text);
        end
        in_valid = 0;
        for (drain = 0; drain < 3 * S + S / V + 16; drain = drain + 1) begin
            @(negedge clk);
            $display("%h %h %h %h", out_valid, out_start, out_last, out_match);
        end
        $finish;
    end
endmodule
