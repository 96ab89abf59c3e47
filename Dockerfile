# bnfold as a command. It needs no network, no user of its own and no place to write:
#   docker build -t bnfold .
#   docker run --rm -i --read-only --network none bnfold optimize - - <model.onnx >out.onnx
# or, with files of the working folder:
#   docker run --rm --read-only --network none --user "$(id -u):$(id -g)" -v "$PWD:/work" bnfold model.onnx out.onnx
FROM python:3.13-slim AS build
COPY . /src
RUN python -m venv /opt/bnfold && /opt/bnfold/bin/python -m pip install --no-cache-dir '/src[onnxruntime,report]'

FROM python:3.13-slim
COPY --from=build /opt/bnfold /opt/bnfold
ENV PATH=/opt/bnfold/bin:$PATH
WORKDIR /work
USER 65534:65534
ENTRYPOINT ["bnfold"]
